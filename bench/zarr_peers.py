"""One peer of zarr_cpu.py or zarr_remote.py: a process that reads and writes Zarr v3 arrays
on request.

Usage: zarr_peers.py PROGRAM, where PROGRAM is zarr-python, zarrs-python or tensorstore.

Each line of the input is a JSON object, and each line of the output the seconds that
the request took. Its keys are those of type request in zarrtimes/main.go. Arrays are
read into memory whose pages were touched before, and opened before the clock starts.
"""

import json
import random
import sys
import time
import urllib.parse

import numpy as np

WIDTH = 4  # bytes of a float32


def bucket_of(url: str) -> tuple[str, str, dict[str, str]]:
    """The bucket of an s3 URL, the path in it, and the query: endpoint and region."""
    parts = urllib.parse.urlsplit(url)
    return parts.netloc, parts.path.strip("/"), dict(urllib.parse.parse_qsl(parts.query))


class ZarrPython:
    """zarr-python; with zarrs, its codec pipeline of that name."""

    def __init__(self, zarrs: bool):
        import zarr

        if zarrs:
            zarr.config.set({"codec_pipeline.path": "zarrs.ZarrsCodecPipeline"})
        self.zarr = zarr

    def compressors(self, codec: str):
        codecs = self.zarr.codecs
        match codec:
            case "none":
                return None
            case "zstd1":
                return codecs.ZstdCodec(level=1)
            case "gzip1":
                return codecs.GzipCodec(level=1)
            case "blosc-lz4" | "blosc-zstd":
                return codecs.BloscCodec(cname=codec.removeprefix("blosc-"), clevel=5, shuffle="shuffle", typesize=WIDTH)
        raise ValueError(codec)

    def create(self, q: dict, shape: tuple[int, ...]):
        shards = tuple(q["shard"]) if q.get("shard") else None
        return self.zarr.create_array(
            self.store(q["path"]), shape=shape, chunks=tuple(q["chunk"]), shards=shards, dtype="float32",
            compressors=self.compressors(q["codec"]),
            # Otherwise each chunk is compared with the fill value first.
            config={"write_empty_chunks": True},
        )  # fmt: skip

    def write(self, array, values: np.ndarray) -> None:
        array[...] = values

    def open(self, path: str, cache: int):
        return self.zarr.open_array(self.store(path), mode="r")

    def store(self, path: str):
        if not path.startswith("s3://"):
            return path
        import obstore.store

        bucket, prefix, query = bucket_of(path)
        inner = obstore.store.S3Store(bucket, prefix=prefix, endpoint=query["endpoint"], region=query["region"], client_options={"allow_http": True})
        return self.zarr.storage.ObjectStore(inner)

    def read(self, array, out: np.ndarray) -> None:
        from zarr.core.buffer import default_buffer_prototype

        target = default_buffer_prototype().nd_buffer.from_ndarray_like(out)
        array.get_basic_selection(..., out=target)

    def part(self, array, start: int, stop: int) -> np.ndarray:
        return array[start:stop]


class TensorStore:
    def __init__(self):
        import tensorstore

        self.tensorstore = tensorstore

    def codecs(self, codec: str) -> list:
        plain = {"name": "bytes", "configuration": {"endian": "little"}}
        match codec:
            case "none":
                return [plain]
            case "zstd1":
                return [plain, {"name": "zstd", "configuration": {"level": 1}}]
            case "gzip1":
                return [plain, {"name": "gzip", "configuration": {"level": 1}}]
            case "blosc-lz4" | "blosc-zstd":
                found = {"cname": codec.removeprefix("blosc-"), "clevel": 5, "shuffle": "shuffle", "typesize": WIDTH, "blocksize": 0}
                return [plain, {"name": "blosc", "configuration": found}]
        raise ValueError(codec)

    def create(self, q: dict, shape: tuple[int, ...]):
        codecs, chunk = self.codecs(q["codec"]), q["chunk"]
        if q.get("shard"):
            index = [{"name": "bytes", "configuration": {"endian": "little"}}, {"name": "crc32c"}]
            inner = {"chunk_shape": chunk, "codecs": codecs, "index_codecs": index}
            codecs, chunk = [{"name": "sharding_indexed", "configuration": inner}], q["shard"]
        grid = {"name": "regular", "configuration": {"chunk_shape": chunk}}
        metadata = {"shape": list(shape), "data_type": "float32", "chunk_grid": grid, "codecs": codecs, "fill_value": 0.0}
        spec = self.spec(q["path"]) | {"metadata": metadata, "store_data_equal_to_fill_value": True}
        return self.tensorstore.open(spec, create=True, delete_existing=True).result()

    def spec(self, path: str) -> dict:
        files = {"driver": "file", "path": f"{path}/", "file_io_sync": False}
        if path.startswith("s3://"):
            bucket, prefix, query = bucket_of(path)
            files = {"driver": "s3", "bucket": bucket, "path": f"{prefix}/", "endpoint": query["endpoint"], "aws_region": query["region"]}
            files["aws_credentials"] = {"type": "environment"}
        return {"driver": "zarr3", "kvstore": files}

    def write(self, array, values: np.ndarray) -> None:
        array.write(values).result()

    def open(self, path: str, cache: int):
        context = self.tensorstore.Context({"cache_pool": {"total_bytes_limit": cache}})
        return self.tensorstore.open(self.spec(path), read=True, context=context).result()

    def read(self, array, out: np.ndarray) -> None:
        self.tensorstore.array(out, copy=False).write(array).result()

    def part(self, array, start: int, stop: int) -> np.ndarray:
        return array[start:stop].read().result()


def starts(n: int, count: int, length: int) -> list[int]:
    """Where the random reads begin: the same for all programs, as in zarrtimes."""
    state, found = 1, []
    for _ in range(count):
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        found.append((state >> 33) % (n - length))
    return found


class Server:
    def __init__(self, program: str):
        self.peer = TensorStore() if program == "tensorstore" else ZarrPython(program == "zarrs-python")
        self.out = np.empty(0, np.float32)

    def source(self, q: dict) -> np.ndarray:
        return np.memmap(q["data"], np.float32, "r").reshape(q["shape"])

    def serve(self, q: dict) -> float:
        return getattr(self, q["op"])(q)

    def write(self, q: dict) -> float:
        values = self.source(q)
        values.max()  # touches the pages
        array = self.peer.create(q, values.shape)
        start = time.perf_counter()
        self.peer.write(array, values)
        return time.perf_counter() - start

    def read(self, q: dict) -> float:
        array, out = self.peer.open(q["path"], 0), self.memory(q["shape"])
        start = time.perf_counter()
        self.peer.read(array, out)
        seconds = time.perf_counter() - start
        if q.get("check") and not np.array_equal(out, self.source(q)):
            raise ValueError(f"{q['path']}: elements differ from those written")
        return seconds

    def random(self, q: dict) -> float:
        array, length = self.peer.open(q["path"], q["cache"]), q["length"]
        found = starts(q["shape"][0], q["count"], length)
        start = time.perf_counter()
        for i in found:
            part = self.peer.part(array, i, i + length)
        seconds = time.perf_counter() - start
        if not np.array_equal(part, self.source(q)[i : i + length]):
            raise ValueError(f"{q['path']}: elements differ from those written")
        return seconds

    def memory(self, shape: list[int]) -> np.ndarray:
        if self.out.size != np.prod(shape):
            self.out = np.zeros(int(np.prod(shape)), np.float32)
        self.out.fill(random.random())
        return self.out.reshape(shape)


def main() -> None:
    server = Server(sys.argv[1])
    print("ready", flush=True)
    for line in sys.stdin:
        print(server.serve(json.loads(line)), flush=True)


if __name__ == "__main__":
    main()
