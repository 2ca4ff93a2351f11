"""Writes methods.zip: an entry of each compression method that Python has."""

import zipfile
from pathlib import Path

with zipfile.ZipFile(Path(__file__).with_name("methods.zip"), "w") as z:
    for name in ("STORED", "DEFLATED", "BZIP2", "LZMA"):
        info = zipfile.ZipInfo(f"c/{name.lower()}")
        z.writestr(info, "".join(f"{name} {i}\n" for i in range(200)), getattr(zipfile, f"ZIP_{name}"))
