"""Reads the output of arrow2zarr with other implementations.

Each reader returns {path: array} for the arrays of a hierarchy, with an exception in
place of an array that it failed to read. can_read reports whether an implementation
supports a dtype.
"""

import json
import subprocess
import tempfile
import warnings
from pathlib import Path

import anndata
import numpy as np
import pandas
import tensorstore
import zarr

# zarr-python warns that the specification of these types may change.
warnings.filterwarnings("ignore", category=zarr.errors.UnstableSpecificationWarning)
warnings.filterwarnings("ignore", message=".*does not have a Zarr V3 specification.*")

HERE = Path(__file__).resolve().parent


def zarr_python(root: Path) -> dict[str, zarr.Array]:
    """All arrays in the consolidated metadata."""
    group = zarr.open_consolidated(str(root), mode="r")
    return {path: node for path, node in group.members(max_depth=None) if isinstance(node, zarr.Array)}


class Tensorstore:
    name = "tensorstore"

    def can_read(self, dtype: np.dtype) -> bool:
        return dtype.kind in "biuf"

    def read(self, root: Path, paths: list[str]) -> dict[str, np.ndarray | Exception]:
        futures = {}
        for path in paths:
            spec = {"driver": "zarr3", "kvstore": {"driver": "file", "path": f"{root}/{path}/"}}
            futures[path] = tensorstore.open(spec, read=True)
        results = {}
        for path, future in futures.items():
            try:
                results[path] = future.result().read().result()
            except ValueError as e:
                results[path] = e
        return results


class Zarrita:
    """Reads all hierarchies with zarrita.js in one run of Node."""

    name = "zarrita"

    def __init__(self, roots: list[Path]):
        self.folder = tempfile.TemporaryDirectory()
        command = ["node", str(HERE / "zarrita.mjs"), self.folder.name]
        run = subprocess.run(command, input=json.dumps([str(r) for r in roots]), capture_output=True, text=True)
        if run.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: {run.stderr}")
        reply = json.loads(run.stdout)
        self.float16 = reply["float16"]  # Float16Array needs Node 24
        self.results = dict(zip(roots, reply["results"], strict=True))

    def can_read(self, dtype: np.dtype) -> bool:
        if dtype == np.float16:
            return self.float16
        return dtype.kind in "biuf" or is_text(dtype)

    def read(self, root: Path, paths: list[str]) -> dict[str, np.ndarray | Exception]:
        return {path: self.array(self.results[root].get(path)) for path in paths}

    def array(self, result: dict | None) -> np.ndarray | Exception:
        if result is None:
            return KeyError("not in the consolidated metadata")
        if "error" in result:
            return ValueError(result["error"])
        content = Path(result["file"]).read_bytes()
        if result["data_type"] == "string":
            values = np.empty(result["shape"], object)
            values[:] = json.loads(content or b"[]")
            return values
        return np.frombuffer(content, np.dtype(result["data_type"]).newbyteorder("<")).reshape(result["shape"])


def is_text(dtype: np.dtype) -> bool:
    return isinstance(dtype, np.dtypes.StringDType)


def read_anndata(node: zarr.Group | zarr.Array) -> tuple[np.ndarray, np.ndarray]:
    """The values of a column and its missing rows, read with anndata."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        element = anndata.io.read_elem(node)
    if isinstance(element, pandas.Categorical):
        missing = element.codes < 0
        categories = np.asarray(element.categories)
        if len(categories) == 0:
            return np.zeros(len(element), categories.dtype), missing
        return categories[np.where(missing, 0, element.codes)], missing
    if isinstance(element, pandas.api.extensions.ExtensionArray):
        missing = np.asarray(element.isna())
        filler = "" if isinstance(element.dtype, pandas.StringDtype) else 0
        dtype = object if filler == "" else element.dtype.numpy_dtype
        return element.to_numpy(dtype=dtype, na_value=filler), missing
    values = np.asarray(element)
    return values, np.zeros(len(values), bool)


def read_frame(root: zarr.Group) -> pandas.DataFrame:
    """The data frame that anndata reads from the root."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return anndata.io.read_elem(root)
