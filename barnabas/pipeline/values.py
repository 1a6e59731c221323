"""How the values of records are decoded into columns: as bytes, text, JSON or Avro.

A value that does not decode is no reason to lose its record: its bytes are kept in the column `undecoded`.
"""

from __future__ import annotations

import functools
import json
import operator
from typing import TYPE_CHECKING

import click

from barnabas.pipeline.options import POSITIVE, InvalidOption, Options, option
from barnabas.pipeline.records import read_batch

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType

FORMATS = ("bytes", "string", "json", "avro")
CONFLUENT_BYTES = 5
"""In front of an Avro value when a schema registry is used: a zero, and the schema's id."""


VALUE_OPTIONS = (
    option("--value-format", default="bytes", help="what the values of records are", type=click.Choice(FORMATS)),
    option(
        "--schema",
        metavar="FILE",
        help="the schema of the values: for json in Spark's DDL (`id BIGINT, name STRING`) or JSON form, which "
        "the job infers without this option; for avro an .avsc file",
    ),
    option(
        "--infer-from",
        type=POSITIVE,
        default=10_000,
        metavar="COUNT",
        help="how many records the job infers a JSON schema from, at the first start",
    ),
    option(
        "--avro-framing",
        default="none",
        help="confluent: each value begins with five bytes of a schema registry",
        type=click.Choice(("none", "confluent")),
    ),
)


def check_value_options(options: Options) -> None:
    """Read the schema's text into `options.schema_text`. Raises InvalidOption."""
    options.schema_text = None
    if options.schema is None:
        if options.value_format == "avro":
            raise InvalidOption("--value-format avro needs --schema FILE.avsc")
        return
    if options.value_format not in ("json", "avro"):
        raise InvalidOption(f"--schema is for --value-format json or avro, not {options.value_format}")
    try:
        with open(options.schema, encoding="utf-8") as file:
            text = file.read().strip()
    except OSError as error:
        raise InvalidOption(f"--schema {options.schema}: {error.strerror}") from None
    if options.value_format == "avro" or text.startswith("{"):
        try:
            json.loads(text)
        except ValueError as error:
            raise InvalidOption(f"--schema {options.schema}: {error}") from None
    options.schema_text = text


def decoded(spark: SparkSession, records: DataFrame, options: Options, topics: str) -> DataFrame:
    """Return the records with `value` decoded, and `undecoded` where that is possible to fail."""
    from pyspark.sql import functions as f  # noqa: PLC0415

    if options.value_format == "bytes":
        return records
    if options.value_format == "string":
        text = f.col("value").cast("string")
        value, is_wrong = text, f.col("value").isNotNull() & ~f.is_valid_utf8(text)
        value = f.when(~is_wrong, value)
    elif options.value_format == "json":
        schema = json_schema(spark, options, topics)
        how = {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _CORRUPT, "timeZone": "UTC"}
        value = f.from_json(f.col("value").cast("string"), schema, how)
        is_wrong = f.col("value").isNotNull() & value[_CORRUPT].isNotNull()
        value = f.when(~is_wrong, value.dropFields(_CORRUPT))
    else:
        value = avro_value(options)
        is_wrong = f.col("value").isNotNull() & value.isNull()
    return records.withColumn("undecoded", f.when(is_wrong, f.col("value"))).withColumn("value", value)


_CORRUPT = "_corrupt_record"


def json_schema(spark: SparkSession, options: Options, topics: str) -> StructType:
    """Return the schema of JSON values: the given one, that of the checkpoint, or one that is inferred and kept there."""
    from pyspark.errors import AnalysisException  # noqa: PLC0415
    from pyspark.sql.types import StringType, StructType  # noqa: PLC0415

    if options.schema_text is not None:
        text = options.schema_text
        struct = StructType.fromJson(json.loads(text)) if text.startswith("{") else StructType.fromDDL(text)
    else:
        folder = f"{options.checkpoint}/value-schema"
        try:
            kept = "".join(row["value"] for row in spark.read.text(folder).collect())
            struct = StructType.fromJson(json.loads(kept))
        except AnalysisException:  # there is none yet
            sample = read_batch(spark, options, topics).select("value").limit(options.infer_from)
            texts = sample.selectExpr("CAST(value AS STRING) AS text").where("text IS NOT NULL")
            found = spark.read.json(texts.rdd.map(lambda row: row["text"]))
            struct = StructType([field for field in found.schema.fields if field.name != _CORRUPT])
            if not struct.fields:
                raise InvalidOption(
                    f"no record of {topics} shows a JSON object to infer a schema from: use --schema FILE"
                ) from None
            spark.createDataFrame([(struct.json(),)], "value STRING").coalesce(1).write.mode("overwrite").text(folder)
    return StructType([*struct.fields]).add(_CORRUPT, StringType())


def avro_value(options: Options) -> Column:
    """Return the column of Avro values, null where one does not decode."""
    from pyspark.sql import functions as f  # noqa: PLC0415
    from pyspark.sql.avro.functions import from_avro  # noqa: PLC0415

    value = f.col("value")
    if options.avro_framing == "confluent":
        value = f.expr(f"substring(value, {CONFLUENT_BYTES + 1})")
    decoded_value = from_avro(value, options.schema_text, {"mode": "PERMISSIVE"})
    schema = json.loads(options.schema_text)
    fields = [field["name"] for field in schema.get("fields", [])] if isinstance(schema, dict) else []
    if not fields:
        return decoded_value
    # What does not decode comes as a record of nulls.
    has_any = functools.reduce(operator.or_, (decoded_value[name].isNotNull() for name in fields))
    return f.when(has_any, decoded_value)
