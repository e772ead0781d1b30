"""Which handler answers which request.

Invariants: every key in `wire.apis.SERVED` has a handler here, but Produce and Fetch, which `server/` calls
directly with the bytes of the frame. A handler returns the answer, or awaits it, or returns None and answers later.
"""

from collections.abc import Callable
from typing import Any

from millstream.broker import cluster, configs, groups, metadata, offsets, producers, topic_admin
from millstream.broker.broker import Broker
from millstream.broker.call import Call
from millstream.wire.apis import ApiKey

Handler = Callable[[Broker, Call, Any], Any]

HANDLERS: dict[int, Handler] = {
    ApiKey.LIST_OFFSETS: offsets.handle_list_offsets,
    ApiKey.METADATA: metadata.handle_metadata,
    ApiKey.OFFSET_COMMIT: groups.handle_offset_commit,
    ApiKey.OFFSET_FETCH: groups.handle_offset_fetch,
    ApiKey.FIND_COORDINATOR: metadata.handle_find_coordinator,
    ApiKey.JOIN_GROUP: groups.handle_join_group,
    ApiKey.HEARTBEAT: groups.handle_heartbeat,
    ApiKey.LEAVE_GROUP: groups.handle_leave_group,
    ApiKey.SYNC_GROUP: groups.handle_sync_group,
    ApiKey.DESCRIBE_GROUPS: groups.handle_describe_groups,
    ApiKey.LIST_GROUPS: groups.handle_list_groups,
    ApiKey.API_VERSIONS: cluster.handle_api_versions,
    ApiKey.CREATE_TOPICS: topic_admin.handle_create_topics,
    ApiKey.DELETE_TOPICS: topic_admin.handle_delete_topics,
    ApiKey.DELETE_RECORDS: topic_admin.handle_delete_records,
    ApiKey.INIT_PRODUCER_ID: producers.handle_init_producer_id,
    ApiKey.OFFSET_FOR_LEADER_EPOCH: offsets.handle_offset_for_leader_epoch,
    ApiKey.DESCRIBE_ACLS: cluster.handle_describe_acls,
    ApiKey.CREATE_ACLS: cluster.handle_create_acls,
    ApiKey.DELETE_ACLS: cluster.handle_delete_acls,
    ApiKey.DESCRIBE_CONFIGS: configs.handle_describe_configs,
    ApiKey.ALTER_CONFIGS: configs.handle_alter_configs,
    ApiKey.DESCRIBE_LOG_DIRS: cluster.handle_describe_log_dirs,
    ApiKey.CREATE_PARTITIONS: topic_admin.handle_create_partitions,
    ApiKey.DELETE_GROUPS: groups.handle_delete_groups,
    ApiKey.INCREMENTAL_ALTER_CONFIGS: configs.handle_incremental_alter_configs,
    ApiKey.LIST_PARTITION_REASSIGNMENTS: cluster.handle_list_partition_reassignments,
    ApiKey.OFFSET_DELETE: groups.handle_offset_delete,
    ApiKey.DESCRIBE_CLIENT_QUOTAS: cluster.handle_describe_client_quotas,
    ApiKey.DESCRIBE_CLUSTER: metadata.handle_describe_cluster,
    ApiKey.DESCRIBE_PRODUCERS: producers.handle_describe_producers,
    ApiKey.LIST_CONFIG_RESOURCES: configs.handle_list_config_resources,
    ApiKey.DESCRIBE_TOPIC_PARTITIONS: metadata.handle_describe_topic_partitions,
}
