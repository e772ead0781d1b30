"""Groups as administrators see them: DescribeGroups and ListGroups.

Why: the words here (states, types, what a missing group looks like) are read by tools and dashboards.
Invariants: the words are Kafka's. Nothing here changes a group.
"""

from collections.abc import Iterable
from typing import Any

from millstream.coordination.classic_group import ClassicGroup, GroupState
from millstream.wire.errors import ErrorCode

NOT_FOUND_VERSION = 6
"""Before this version of DescribeGroups, a group that does not exist was called Dead, without an error."""

GROUP_OPERATIONS = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11
"""Read, delete, describe, describe and alter configs: everything a group allows, as Kafka's bit field."""

OPERATIONS_UNKNOWN = -(2**31)


def described(
    group_id: str, group: ClassicGroup | None, *, version: int, is_with_operations: bool
) -> dict[str, Any]:
    operations = GROUP_OPERATIONS if is_with_operations else OPERATIONS_UNKNOWN
    if group is None:
        return _missing(group_id, version, operations)
    is_stable = group.state is GroupState.STABLE
    protocol_name = group.protocol_name if is_stable else None
    return {
        "error_code": ErrorCode.NONE,
        "error_message": None,
        "group_id": group_id,
        "group_state": group.state.value,
        "protocol_type": group.protocol_type or "",
        "protocol_data": protocol_name or "",
        "members": [member.described(protocol_name) for member in group.members.values()],
        "authorized_operations": operations,
    }


def listed(
    groups: Iterable[ClassicGroup], *, states: Iterable[str], types: Iterable[str]
) -> list[dict[str, Any]]:
    """Groups in one of the states and of one of the types, in any letter case; no filter takes all."""
    wanted_states = {state.lower() for state in states}
    wanted_types = {kind.lower() for kind in types}
    return [
        {
            "group_id": group.group_id,
            "protocol_type": group.protocol_type or "",
            "group_state": group.state.value,
            "group_type": group.type,
        }
        for group in groups
        if (not wanted_states or group.state.value.lower() in wanted_states)
        and (not wanted_types or group.type in wanted_types)
    ]


def _missing(group_id: str, version: int, operations: int) -> dict[str, Any]:
    is_told = version >= NOT_FOUND_VERSION
    return {
        "error_code": ErrorCode.GROUP_ID_NOT_FOUND if is_told else ErrorCode.NONE,
        "error_message": f"Group {group_id} not found." if is_told else None,
        "group_id": group_id,
        "group_state": GroupState.DEAD.value,
        "protocol_type": "",
        "protocol_data": "",
        "members": [],
        "authorized_operations": OPERATIONS_UNKNOWN if is_told else operations,
    }
