"""The columns of a batch as trees of nodes: types, lengths, and buffer addresses."""

from dataclasses import dataclass, field

import pyarrow as pa
from pyarrow import types

from .errors import ProtocolError
from .flatbuffer import FieldIds, RecordBatch


@dataclass
class Node:
    """An array of the Arrow columnar format. A buffer is an address and a size; it is
    (0, 0) if it is absent or empty."""

    type: pa.DataType
    length: int
    null_count: int
    buffers: list[tuple[int, int]] = field(default_factory=list)
    children: "list[Node]" = field(default_factory=list)
    dictionary: "Node | None" = None


def children_of(t: pa.DataType) -> list[pa.DataType]:
    if types.is_map(t):
        return [pa.struct([t.key_field, t.item_field])]
    if types.is_struct(t) or types.is_union(t):
        return [t.field(i).type for i in range(t.num_fields)]
    if types.is_run_end_encoded(t):
        return [t.run_end_type, t.value_type]
    return [t.value_type] if _is_list(t) else []


def _is_list(t: pa.DataType) -> bool:
    return types.is_list(t) or types.is_large_list(t) or types.is_fixed_size_list(t) or types.is_list_view(t) or types.is_large_list_view(t)


def _minimum_sizes(t: pa.DataType, n: int) -> list[int] | None:
    """Returns the minimum sizes of a type's buffers for n elements, validity first.
    Returns None for types of views, whose number of buffers is in the message."""
    bits = (n + 7) // 8
    if types.is_null(t) or types.is_run_end_encoded(t):
        return []
    if types.is_union(t):
        return [n] if t.mode == "sparse" else [n, 4 * n]
    if types.is_string_view(t) or types.is_binary_view(t):
        return None
    if types.is_struct(t) or types.is_fixed_size_list(t):
        return [bits]
    if types.is_list_view(t) or types.is_large_list_view(t):
        width = 8 if types.is_large_list_view(t) else 4
        return [bits, width * n, width * n]
    if types.is_list(t) or types.is_map(t) or types.is_large_list(t):
        return [bits, (8 if types.is_large_list(t) else 4) * (n + 1)]
    if types.is_string(t) or types.is_binary(t):
        return [bits, 4 * (n + 1), 0]
    if types.is_large_string(t) or types.is_large_binary(t):
        return [bits, 8 * (n + 1), 0]
    return [bits, (t.bit_width * n + 7) // 8]


class NodeBuilder:
    """Builds the nodes of one message, in the order of the message."""

    def __init__(self, message: RecordBatch, place, dictionaries: dict[int, Node]):
        self.message, self.place, self.dictionaries = message, place, dictionaries
        self.nodes, self.buffers, self.variadic = iter(message.nodes), iter(message.buffers), iter(message.variadic)

    def columns(self, fields: list[pa.DataType], ids: list[FieldIds]) -> list[Node]:
        made = [self.node(t, i) for t, i in zip(fields, ids, strict=True)]
        for what, rest in (("nodes", self.nodes), ("buffers", self.buffers)):
            if next(rest, None) is not None:
                raise ProtocolError(f"Arrow message: more {what} than the schema has")
        return made

    def node(self, t: pa.DataType, ids: FieldIds) -> Node:
        if isinstance(t, pa.BaseExtensionType):
            made = self.node(t.storage_type, ids)
            made.type = t
            return made
        length, nulls = self._next(self.nodes, "nodes")
        if length < 0 or not 0 <= nulls <= length:
            raise ProtocolError(f"Arrow node: invalid length {length} with {nulls} nulls")
        made = Node(t, length, nulls)
        stored = t.index_type if types.is_dictionary(t) else t
        least = _minimum_sizes(stored, length)
        if least is None:
            (count,) = (self._next(self.variadic, "counts of buffers"),)
            if not 0 <= count <= len(self.message.buffers):
                raise ProtocolError(f"column of views: invalid number of buffers {count}")
            least = [(length + 7) // 8, 16 * length] + [0] * count
        bitmap = not (types.is_null(stored) or types.is_union(stored) or types.is_run_end_encoded(stored))
        for i, size in enumerate(least):
            offset, there = self._next(self.buffers, "buffers")
            optional = (bitmap and i == 0 and nulls == 0) or length == 0
            if there < size and not (optional and there == 0):
                raise ProtocolError(f"column of {t} with {length} elements: buffer: got {there} bytes, want at least {size}")
            made.buffers.append(self.place(offset, there))
        if types.is_dictionary(t):
            if ids.dictionary not in self.dictionaries:
                raise ProtocolError(f"column of {t}: dictionary {ids.dictionary} is missing")
            made.dictionary = self.dictionaries[ids.dictionary]
            return made
        inner = children_of(t)
        if len(inner) != len(ids.children):
            raise ProtocolError(f"column of {t}: got {len(ids.children)} children, want {len(inner)}")
        made.children = [self.node(c, i) for c, i in zip(inner, ids.children, strict=True)]
        self._check_children(made)
        return made

    @staticmethod
    def _next(entries, what: str):
        found = next(entries, None)
        if found is None:
            raise ProtocolError(f"Arrow message: fewer {what} than the schema has")
        return found

    @staticmethod
    def _check_children(node: Node) -> None:
        t = node.type
        if types.is_struct(t) or (types.is_union(t) and t.mode == "sparse"):
            due = node.length
        elif types.is_fixed_size_list(t):
            due = node.length * t.list_size
        else:
            return
        for child in node.children:
            if child.length < due:
                raise ProtocolError(f"child of {t}: got {child.length} elements, want at least {due}")


def dictionary_types(fields: list[pa.DataType], ids: list[FieldIds]) -> dict[int, tuple[pa.DataType, list[FieldIds]]]:
    """Returns the type of each dictionary's values, by dictionary id."""
    found: dict[int, tuple[pa.DataType, list[FieldIds]]] = {}

    def walk(t: pa.DataType, i: FieldIds) -> None:
        while isinstance(t, pa.BaseExtensionType):
            t = t.storage_type
        if types.is_dictionary(t):
            if i.dictionary is None:
                raise ProtocolError(f"field of {t}: no dictionary id")
            found[i.dictionary] = (t.value_type, i.children)
            t = t.value_type
        inner = children_of(t)
        if len(inner) != len(i.children):
            raise ProtocolError(f"field of {t}: got {len(i.children)} children, want {len(inner)}")
        for child, ci in zip(inner, i.children, strict=True):
            walk(child, ci)

    for t, i in zip(fields, ids, strict=True):
        walk(t, i)
    return found
