"""The cluster behind an address: its id, its brokers, its controller.

Why: a person who is asked "which cluster was that?" needs an answer, and sizes are asked of each broker.
Invariants: brokers are sorted by id.
"""

from dataclasses import dataclass

from millstream.client.session import AdminSession


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerAddress:
    id: int
    host: str
    port: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterDescription:
    cluster_id: str
    controller: int | None
    brokers: tuple[BrokerAddress, ...]


def describe_cluster(session: AdminSession) -> ClusterDescription:
    found = session.ask(lambda admin, timeout: admin.describe_cluster(request_timeout=timeout))
    brokers = sorted((node.id, node.host, node.port) for node in found.nodes)
    return ClusterDescription(
        cluster_id=found.cluster_id or "",
        controller=found.controller.id if found.controller is not None else None,
        brokers=tuple(BrokerAddress(id=id, host=host, port=port) for id, host, port in brokers),
    )
