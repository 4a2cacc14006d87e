"""Add the third-party scripts of the explorer to the package, in fixed versions, with license and hash.

    python tools/vendor_scripts.py            fetch and write every script
    python tools/vendor_scripts.py --check    fetch them and compare them with the files in the package

Needs npm, which verifies packages with the hashes of the registry. This hash and that of the file are written to
``vendored.json`` next to the scripts, and tests/test_vendored_scripts.py compares the files with it. A script with
another license than the one named here is rejected. To update a script, change its version here and run this tool.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

import click

FOLDER = Path(__file__).parents[1] / "kvstore" / "integrations" / "explore" / "static" / "vendor"
MANIFEST = "vendored.json"
#: The licenses under which a script can be included.
LICENCES = ("MIT", "BSD-2-Clause", "BSD-3-Clause", "ISC", "0BSD")


@dataclass(frozen=True, slots=True)
class Script:
    """A script of a package: its path there, and its name here."""

    package: str
    version: str
    licence: str
    inside: str
    file: str

    @property
    def licence_file(self) -> str:
        """The file name of the script's license."""
        return f"LICENSE.{self.file.removesuffix('.min.js')}"


SCRIPTS = (
    Script("cytoscape", "3.34.4", "MIT", "dist/cytoscape.min.js", "cytoscape.min.js"),
    Script("htmx.org", "2.0.11", "0BSD", "dist/htmx.min.js", "htmx.min.js"),
)


@click.command()
@click.option("--check", is_flag=True, help="Write nothing; fail if a file differs from the published one.")
def main(check: bool) -> None:
    """Fetch the scripts, and write or compare them."""
    if shutil.which("npm") is None:
        sys.exit("npm is not installed; it comes with Node.js")
    files: dict[str, bytes] = {}
    entries = []
    for script in SCRIPTS:
        data, licence, integrity = _fetch_script(script)
        files |= {script.file: data, script.licence_file: licence}
        entries.append(
            {
                "name": script.package,
                "version": script.version,
                "licence": script.licence,
                "file": script.file,
                "licence_file": script.licence_file,
                "sha256": hashlib.sha256(data).hexdigest(),
                "licence_sha256": hashlib.sha256(licence).hexdigest(),
                "integrity": integrity,
            }
        )
    files[MANIFEST] = (json.dumps(entries, indent=2) + "\n").encode()
    if check:
        wrong = [name for name, data in files.items() if (FOLDER / name).read_bytes() != data]
        wrong += sorted(path.name for path in FOLDER.iterdir() if path.name not in files)
        if wrong:
            sys.exit(f"not as published: {', '.join(wrong)}")
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path in FOLDER.iterdir():
        if path.name not in files:
            path.unlink()
    for name, data in files.items():
        (FOLDER / name).write_bytes(data)
        print(f"{name}: {len(data):,} bytes")


def _fetch_script(script: Script) -> tuple[bytes, bytes, str]:
    """Return the script, its license, and the registry's hash of the package."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["npm", "pack", f"{script.package}@{script.version}", "--json", "--ignore-scripts"]
        done = subprocess.run(command, cwd=folder, capture_output=True, check=True, text=True)
        (packed,) = json.loads(done.stdout)
        with tarfile.open(Path(folder) / packed["filename"]) as archive:

            def read(name: str) -> bytes:
                """Return a file of the package."""
                member = archive.extractfile(f"package/{name}")
                if member is None:
                    sys.exit(f"{script.package} {script.version} has no file {name}")
                return member.read()

            described = json.loads(read("package.json"))
            if described["license"] != script.licence or script.licence not in LICENCES:
                sys.exit(f"{script.package} {script.version} is under {described['license']}, not {script.licence}")
            return read(script.inside), read("LICENSE"), packed["integrity"]


if __name__ == "__main__":
    main()
