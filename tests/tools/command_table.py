"""Which test runs each command, against a broker of ours and against Apache Kafka 3.9.1.

A row of tests/tools or tests/relay is a test on the fixtures `broker` or `secured`: tests/interop/commands/test_commands.py
runs it again with Apache Kafka. A row of tests/interop is a test that runs both by itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import click

from barnabas.commands import TABLE, root

_HERE = "tests.tools.test_commands"
_OPTIONS = "tests.tools.test_kafka_options"
_GROUPS = "tests.tools.test_group_commands"
_FEATURES = "tests.interop.commands.test_features_tool"
_RULES = "tests.relay.commands.test_rules"
_DELAYED = "tests.relay.commands.test_delayed"
_SETTINGS = "tests.tools.test_setting_commands"
_DLQ = "tests.relay.commands.test_dlq"

ROWS = {
    "acls add": (_HERE, "test_acls_are_added_listed_and_removed"),
    "acls list": (_HERE, "test_acls_are_added_listed_and_removed"),
    "acls remove": (_HERE, "test_acls_are_added_listed_and_removed"),
    "balance": (_HERE, "test_one_broker_has_nothing_to_give_away"),
    "brokers api-versions": (_HERE, "test_api_versions_and_log_directories_of_brokers"),
    "brokers list": (_HERE, "test_brokers_and_health"),
    "brokers log-dirs": (_HERE, "test_api_versions_and_log_directories_of_brokers"),
    "cluster health": (_HERE, "test_brokers_and_health"),
    "configs alter": (_SETTINGS, "test_settings_take_units"),
    "configs describe": (_HERE, "test_settings_are_described_and_altered"),
    "consume": (_HERE, "test_lines_are_written_and_printed_in_order"),
    "delayed cancel": (_DELAYED, "test_what_waits_is_listed_shown_and_cancelled"),
    "delayed list": (_DELAYED, "test_what_waits_is_listed_shown_and_cancelled"),
    "delayed show": (_DELAYED, "test_what_waits_is_listed_shown_and_cancelled"),
    "dlq list": (_DLQ, "test_dead_letters_are_listed_counted_and_shown"),
    "dlq purge": (_DLQ, "test_what_was_brought_back_or_has_expired_is_deleted"),
    "dlq requeue": (_DLQ, "test_letters_come_back_once_as_they_were_sent"),
    "dlq show": (_DLQ, "test_dead_letters_are_listed_counted_and_shown"),
    "features describe": (_FEATURES, "test_the_command_changes_levels_of_ours_and_has_none_to_change_of_3_9"),
    "features disable": (_FEATURES, "test_the_command_changes_levels_of_ours_and_has_none_to_change_of_3_9"),
    "features downgrade": (_FEATURES, "test_the_command_changes_levels_of_ours_and_has_none_to_change_of_3_9"),
    "features upgrade": (_FEATURES, "test_the_command_changes_levels_of_ours_and_has_none_to_change_of_3_9"),
    "find": (_HERE, "test_a_record_is_found_in_the_partition_of_its_key_and_in_others"),
    "groups delete": (_HERE, "test_offsets_are_reset_only_when_asked"),
    "groups delete-offsets": (_HERE, "test_offsets_are_exported_taken_back_and_deleted"),
    "groups describe": (_HERE, "test_a_group_commits_what_was_printed"),
    "groups list": (_HERE, "test_a_group_commits_what_was_printed"),
    "groups remove-members": (_OPTIONS, "test_members_are_removed_only_when_asked"),
    "groups reset": (_GROUPS, "test_what_is_committed_is_kept_and_shown_as_it_is"),
    "partitions cancel": (_HERE, "test_partitions_are_planned_verified_and_led"),
    "partitions elect": (_HERE, "test_partitions_are_planned_verified_and_led"),
    "partitions plan": (_HERE, "test_partitions_are_planned_verified_and_led"),
    "partitions reassign": (_HERE, "test_partitions_are_planned_verified_and_led"),
    "partitions reassignments": (_HERE, "test_partitions_are_planned_verified_and_led"),
    "partitions verify": (_HERE, "test_partitions_are_planned_verified_and_led"),
    "perf consume": (_HERE, "test_performance_is_told_in_figures"),
    "perf latency": (_HERE, "test_performance_is_told_in_figures"),
    "perf produce": (_HERE, "test_performance_is_told_in_figures"),
    "produce": (_HERE, "test_what_json_printed_can_be_written_again"),
    "quotas alter": (_HERE, "test_quotas_are_altered_and_listed"),
    "quotas list": (_HERE, "test_quotas_are_altered_and_listed"),
    "records delete": (_HERE, "test_records_are_deleted_only_when_asked"),
    "relay rules add": (_RULES, "test_rules_are_added_listed_changed_checked_and_removed"),
    "relay rules apply": (_RULES, "test_a_file_is_applied_whole"),
    "relay rules check": (_RULES, "test_rules_are_added_listed_changed_checked_and_removed"),
    "relay rules list": (_RULES, "test_rules_are_added_listed_changed_checked_and_removed"),
    "relay rules remove": (_RULES, "test_rules_are_added_listed_changed_checked_and_removed"),
    "topics alter": (_HERE, "test_topics_are_created_listed_described_altered_and_deleted"),
    "topics create": (_HERE, "test_topics_are_created_listed_described_altered_and_deleted"),
    "topics delete": (_HERE, "test_topics_are_created_listed_described_altered_and_deleted"),
    "topics describe": (_HERE, "test_topics_are_created_listed_described_altered_and_deleted"),
    "topics list": (_HERE, "test_topics_are_created_listed_described_altered_and_deleted"),
    "topics offsets": (_HERE, "test_offsets_of_a_topic_are_shown"),
    "transactions abort": (_HERE, "test_transactions_are_listed_described_and_aborted"),
    "transactions describe": (_HERE, "test_transactions_are_listed_described_and_aborted"),
    "transactions find-hanging": (_OPTIONS, "test_a_transaction_that_its_coordinator_knows_does_not_hang"),
    "transactions list": (_HERE, "test_transactions_are_listed_described_and_aborted"),
    "transactions producers": (_HERE, "test_transactions_are_listed_described_and_aborted"),
    "trace": ("tests.relay.commands.test_trace", "test_a_message_is_told_with_its_copies_and_its_readers"),
    "verify consume": (_HERE, "test_what_was_acknowledged_is_verified_or_named"),
    "verify produce": (_HERE, "test_what_was_acknowledged_is_verified_or_named"),
}


def command_of(words: Sequence[str]) -> tuple[click.Command, list[str]]:
    """Return the command that is called by words, and what it is given."""
    command: click.Command | None = root
    rest = list(words)
    while isinstance(command, click.Group) and rest:
        command = command.get_command(click.Context(command), rest.pop(0))
    assert command is not None, words
    return command, rest


def commands() -> Iterator[tuple[str, click.Command]]:
    """Yield every command that does something, with its words."""

    def below(words: tuple[str, ...]) -> Iterator[tuple[str, click.Command]]:
        command, _ = command_of(words)
        if not isinstance(command, click.Group):
            yield " ".join(words), command
            return
        for name in command.list_commands(click.Context(command)):
            yield from below((*words, name))

    for name in TABLE:
        yield from below((name,))
