//! Writes values to a topic over REST v2, and reads them as a consumer of a group, by the published client `kafka-http`.
//!
//! Usage: rest-v2-tour URI TOPIC GROUP VALUE...
//! It prints each record as `offset value`, and ends when it has read as many as it has written.

use kafka_http::types::{CreateConsumerParams, ProduceParams, ProduceRecord, SubscribeParams};
use kafka_http::KafkaHttpClient;

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let (uri, topic, group, values) = (&words[0], &words[1], &words[2], &words[3..]);
    let mut client = KafkaHttpClient::new(uri);
    let records = values.iter().map(|value| ProduceRecord { value: value.clone() }).collect();
    client.produce_to_topic(topic, &ProduceParams { records }).await.expect("the records are written");
    let wanted = CreateConsumerParams {
        name: "tour".to_string(),
        format: "json".to_string(),
        auto_offset_reset: "earliest".to_string(),
    };
    let made = client.create_consumer(group, &wanted).await.expect("a consumer is made");
    let again = client.try_create_consumer(group, &wanted).await.expect("it is known to exist");
    assert_eq!(again, Some(made));
    client.subscribe(group, &SubscribeParams { topics: vec![topic.clone()] }).await.expect("it subscribes");
    let mut left = values.len();
    while left > 0 {
        for record in client.poll().await.expect("records are read") {
            println!("{} {}", record.offset, record.value);
            left -= 1;
        }
    }
}
