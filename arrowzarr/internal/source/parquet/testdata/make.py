"""Writes the Parquet files of this folder."""

import datetime
import decimal
import pathlib

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.parquet.encryption as pe

FOLDER = pathlib.Path(__file__).parent


def types():
    """Types that Parquet does not have, and metadata outside of the Arrow schema."""
    d = decimal.Decimal
    instants = [1_500_000_000, None, -1]
    decimals = [d("1.23"), None, d("-99999.99")]
    text = ["a text that does not fit into twelve bytes", None, ""]
    nested = pa.struct([("x", pa.decimal32(9, 2)), ("t", pa.timestamp("s", tz="Europe/Berlin")), ("v", pa.string_view())])
    tensor = pa.fixed_shape_tensor(pa.int16(), (2, 2), permutation=(1, 0))
    bools = pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, None, 0], pa.int8()))
    flags = pa.StructArray.from_arrays([bools, pa.array([1, 2, 3])], ["on", "n"], mask=pa.array([False, True, False]))
    moment = datetime.datetime(2020, 1, 2, tzinfo=datetime.timezone.utc)
    table = pa.table({
        "berlin": pa.array(instants, pa.timestamp("s", tz="Europe/Berlin")),
        "newyork": pa.array(instants, pa.timestamp("ms", tz="America/New_York")),
        "plain": pa.array(instants, pa.timestamp("s")),
        "json": pa.array(['{"a": 1}', None, "[]"], pa.json_(pa.string())),
        "uuid": pa.array([b"0123456789abcdef", None, bytes(16)], pa.uuid()),
        "bool8": pa.ExtensionArray.from_storage(pa.bool8(), pa.array([1, None, 0], pa.int8())),
        "decimal32": pa.array(decimals, pa.decimal32(9, 2)),
        "decimal64": pa.array(decimals, pa.decimal64(18, 2)),
        "text_view": pa.array(text, pa.string_view()),
        "bytes_view": pa.array([None if t is None else t.encode() for t in text], pa.binary_view()),
        "durations": pa.array([[1, None], None, []], pa.list_(pa.duration("ms"))),
        "json_large": pa.array(['{"a": 1}', None, "[]"], pa.json_(pa.large_string())),
        "json_view": pa.array(['{"a": 1}', None, "[]"], pa.json_(pa.string_view())),
        "flags": flags,
        "sorted": pa.array([[("a", 1)], None, []], pa.map_(pa.string(), pa.int16(), keys_sorted=True)),
        "tensors": pa.ListArray.from_arrays(pa.array([0, 1, None, 1], pa.int32()), pa.ExtensionArray.from_storage(tensor, pa.array([[1, 2, 3, 4]], tensor.storage_type))),
        "nested": pa.array([{"x": d("1.23"), "t": moment, "v": "abc"}, None, {"x": None, "t": None, "v": None}], nested),
    })
    with pq.ParquetWriter(FOLDER / "types.parquet", table.schema) as w:
        w.write_table(table)
        w.add_key_value_metadata({"geo": '{"version": "1.1"}'})


def deltas():
    """Values of fixed length in encodings that arrow-go does not read, and others. Row i of
    each column follows from i, as parquet_test.go has it."""
    n = 700
    rows = range(n)
    table = pa.table({
        "fixed": pa.array([None if i % 11 == 0 else b"%03d-%03d" % (i // 10, i) for i in rows], pa.binary(7)),
        "decimal": pa.array([decimal.Decimal(i * i - 1000) / 100 for i in rows], pa.decimal128(9, 2)),
        "half": pa.array([i / 4 for i in rows], pa.float16()),
        "int32": pa.array([None if i % 5 == 0 else (i * 7919) % 1000 - 500 for i in rows], pa.int32()),
        "int64": pa.array([(-1) ** i * (1 << (i % 63)) for i in rows]),
        "lists": pa.array([["%d" % (i // 7 + j) for j in range(i % 4)] for i in rows], pa.list_(pa.string())),
    })
    encodings = {
        "fixed": "DELTA_BYTE_ARRAY", "decimal": "DELTA_BYTE_ARRAY", "half": "BYTE_STREAM_SPLIT", "int32": "DELTA_BINARY_PACKED",
        "int64": "DELTA_BINARY_PACKED", "lists.list.element": "DELTA_BYTE_ARRAY",
    }
    pq.write_table(table, FOLDER / "deltas.parquet", use_dictionary=False, column_encoding=encodings, data_page_size=900, row_group_size=400, compression="zstd")


class Keys(pe.KmsClient):
    """Wraps keys by not encrypting them."""

    def __init__(self, config):
        pe.KmsClient.__init__(self)

    def wrap_key(self, key_bytes, master_key_identifier):
        return key_bytes.hex()

    def unwrap_key(self, wrapped_key, master_key_identifier):
        return bytes.fromhex(wrapped_key)


def encrypted(name, plaintext_footer):
    factory = pe.CryptoFactory(Keys)
    config = pe.EncryptionConfiguration(footer_key="f", column_keys={"c": ["secret"]}, plaintext_footer=plaintext_footer)
    properties = factory.file_encryption_properties(pe.KmsConnectionConfig(), config)
    table = pa.table({"secret": [1, 2, 3], "open": [4, 5, 6]})
    with pq.ParquetWriter(FOLDER / name, table.schema, encryption_properties=properties) as w:
        w.write_table(table)


types()
deltas()
encrypted("encrypted_footer.parquet", plaintext_footer=False)
encrypted("encrypted_columns.parquet", plaintext_footer=True)
