"""Add the third-party scripts of the explorer to the package, in fixed versions, with license and hash.

    python tools/vendor_scripts.py            fetch and write every script
    python tools/vendor_scripts.py --check    fetch them and compare them with the files in the package

Needs npm, which verifies packages with the hashes of the registry. This hash and the file's hash are written to
``vendored.json`` next to the scripts, and tests/test_vendored_scripts.py compares the files with it. A script with a
license other than the one named here is rejected. To update a script, change its version here and run this tool.
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
LICENSES = ("MIT", "BSD-2-Clause", "BSD-3-Clause", "ISC", "0BSD")


@dataclass(frozen=True, slots=True)
class Script:
    """A script of an npm package: its path in the package, and the name of its file in kvstore."""

    package: str
    version: str
    license: str
    inside: str
    file: str

    @property
    def license_file(self) -> str:
        """The file name of the script's license."""
        return f"LICENSE.{self.file.removesuffix('.min.js')}"


SCRIPTS = (
    Script("cytoscape", "3.34.4", "MIT", "dist/cytoscape.min.js", "cytoscape.min.js"),
    Script("htmx.org", "2.0.11", "0BSD", "dist/htmx.min.js", "htmx.min.js"),
)


@click.command()
@click.option("--check", is_flag=True, help="Write nothing; fail if a file differs from the published one.")
def main(check: bool) -> None:
    """Fetch the scripts, and write them to the package, or compare them with its files (``--check``)."""
    if shutil.which("npm") is None:
        sys.exit("npm is not installed; it comes with Node.js")
    files: dict[str, bytes] = {}
    entries = []
    for script in SCRIPTS:
        data, license, integrity = _fetch_script(script)
        files |= {script.file: data, script.license_file: license}
        entries.append(
            {
                "name": script.package,
                "version": script.version,
                "licence": script.license,
                "file": script.file,
                "licence_file": script.license_file,
                "sha256": hashlib.sha256(data).hexdigest(),
                "licence_sha256": hashlib.sha256(license).hexdigest(),
                "integrity": integrity,
            }
        )
    files[MANIFEST] = (json.dumps(entries, indent=2) + "\n").encode()
    if check:
        differing_files = [name for name, data in files.items() if (FOLDER / name).read_bytes() != data]
        differing_files += sorted(path.name for path in FOLDER.iterdir() if path.name not in files)
        if differing_files:
            sys.exit(f"not as published: {', '.join(differing_files)}")
        return
    FOLDER.mkdir(parents=True, exist_ok=True)
    for path in FOLDER.iterdir():
        if path.name not in files:
            path.unlink()
    for name, data in files.items():
        (FOLDER / name).write_bytes(data)
        print(f"{name}: {len(data):,} bytes")


def _fetch_script(script: Script) -> tuple[bytes, bytes, str]:
    """Return the script, its license, and the registry's hash of the package; exit if the license is not as stated."""
    with tempfile.TemporaryDirectory() as folder:
        command = ["npm", "pack", f"{script.package}@{script.version}", "--json", "--ignore-scripts"]
        process = subprocess.run(command, cwd=folder, capture_output=True, check=True, text=True)
        (package,) = json.loads(process.stdout)
        with tarfile.open(Path(folder) / package["filename"]) as archive:

            def read_file(name: str) -> bytes:
                """Return the content of a file of the package."""
                member = archive.extractfile(f"package/{name}")
                if member is None:
                    sys.exit(f"{script.package} {script.version} has no file {name}")
                return member.read()

            description = json.loads(read_file("package.json"))
            if description["license"] != script.license or script.license not in LICENSES:
                sys.exit(f"{script.package} {script.version} is under {description['license']}, not {script.license}")
            return read_file(script.inside), read_file("LICENSE"), package["integrity"]


if __name__ == "__main__":
    main()
