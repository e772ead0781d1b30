"""Which requests of the Kafka protocol are answered, and which not."""

from docs.reference_pages.markdown import code, page, table

from millstream.wire.apis import PRODUCE_VERSION_MIN, SERVED, ApiKey

_INTRODUCTION = """\
A client asks for these ranges with ApiVersions and chooses the newest version that both sides know. Field by field
they are those of Apache Kafka 4.3. ApiVersions itself is answered in version 0 when a client asks for one that is too
new, so that it can find out which to use."""

_NOT_YET = """\
Not advertised, so clients see at once that they are not there. Transactions, the KIP-848 consumer protocol and share
groups come next; see [the changelog](../../CHANGELOG.md) for what is there now."""

# What a row's name does not say.
_NOTES = {
    ApiKey.PRODUCE: f"0 to {PRODUCE_VERSION_MIN - 1} are advertised and refused: older librdkafka stops compressing "
    "when they are not there. acks -1, 0 and 1; idempotent producers. From 13 on topics go by id.",
    ApiKey.FETCH: "Long polls, fetch sessions. From 13 on topics go by id.",
    ApiKey.LIST_OFFSETS: "Earliest, latest, by timestamp, of the newest timestamp.",
    ApiKey.JOIN_GROUP: "The classic protocol, static members too.",
    ApiKey.CREATE_TOPICS: "The replication factor must be 1, or -1 for the default.",
    ApiKey.DESCRIBE_ACLS: "Answered with SECURITY_DISABLED, as by a Kafka broker without an authorizer.",
    ApiKey.CREATE_ACLS: "As above.",
    ApiKey.DELETE_ACLS: "As above.",
    ApiKey.LIST_PARTITION_REASSIGNMENTS: "Always empty: one node.",
    ApiKey.DESCRIBE_CLIENT_QUOTAS: "Always empty: there are none.",
    ApiKey.INIT_PRODUCER_ID: "For idempotent producers; a transactional id is refused for now.",
}


def protocol_page() -> str:
    served = (
        (
            str(int(api)),
            _name(api),
            f"{first} to {last}" if first != last else str(first),
            _NOTES.get(api, ""),
        )
        for api, (first, last) in SERVED.items()
    )
    missing = (
        (str(int(api)), _name(api)) for api in ApiKey if api not in SERVED
    )  # in the order of their keys
    return page(
        "The Kafka protocol, as served",
        _INTRODUCTION,
        "## Served",
        table(("key", "request", "versions", "notes"), served),
        "## Not served",
        _NOT_YET,
        table(("key", "request"), missing),
        "## Record batches",
        f"Format v2 (magic {code(2)}), compressed with gzip, snappy, lz4 or zstd or not at all, stored as they came "
        "unless the topic's `compression.type` says otherwise. Older formats are refused with INVALID_RECORD.",
    )


def _name(api: ApiKey) -> str:
    return api.name.title().replace("_", "")
