"""What pyproject.toml cannot say: the Cython extensions, the packages whose folders carry shorter names, and archives
that come out the same.

With ``SOURCE_DATE_EPOCH`` set, two builds of one checkout give the same bytes, in whichever folders they are made
(https://reproducible-builds.org/specs/source-date-epoch/). Wheels carry a bill of what comes from others (PEP 770).
With the address of the repository in ``KVSTORE_REPOSITORY``, the metadata link to it.
"""

from __future__ import annotations

import gzip
import os
import re
import sys
import tarfile
import threading
import time
from pathlib import Path

from setuptools import Extension, find_packages, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext
from setuptools.command.sdist import sdist

PACKAGE_FOLDERS = {
    "kvstore": "kvstore",
    "kvstore_cext": "cext",
    "kvstore_shell": "shell",
    "kvstore_migrations": "migrations",
}
BILL = Path("kvstore.cdx.json")
REPOSITORY = os.environ.get("KVSTORE_REPOSITORY", "").rstrip("/")
# The code that Cython would put into each kernel, mainly memory views: compiled once and loaded by all.
SHARED_UTILITY = "kvstore_cext.shared_utility"
# Kernels are called by name and never pickled; what serves introspection and pickling is a tenth of their code.
DIRECTIVES = {"binding": False, "auto_pickle": False}


class Kernels(build_ext):
    """The kernels, several compilers at a time: one kernel is translated while others are compiled."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.parallel = self.parallel or os.cpu_count()
        self._translating = threading.Lock()

    def build_extension(self, ext: Extension) -> None:
        from Cython.Build import cythonize  # not above: a source archive is made without translating anything

        with self._translating:  # Cython is not made for threads
            (translated,) = cythonize(
                [ext],
                force=self.force,
                quiet=True,
                build_dir=self.build_temp,
                shared_utility_qualified_name=SHARED_UTILITY,
                compiler_directives=DIRECTIVES,
            )
        ext.sources = translated.sources
        super().build_extension(ext)


class SourceArchive(sdist):
    """The source archive, without the times, owners and order of the files that it is made of."""

    def make_archive(
        self,
        base_name: str,
        format: str,
        root_dir: str | None = None,
        base_dir: str | None = None,
        owner: str | None = None,
        group: str | None = None,
    ) -> str:
        if format != "gztar" or base_dir is None:
            return super().make_archive(base_name, format, root_dir, base_dir, owner, group)
        made = int(os.environ.get("SOURCE_DATE_EPOCH") or time.time())

        def plain(member: tarfile.TarInfo) -> tarfile.TarInfo:
            member.mtime, member.uid, member.gid, member.uname, member.gname = made, 0, 0, "", ""
            member.mode = 0o755 if member.isdir() or member.mode & 0o100 else 0o644
            return member

        archive = Path(f"{base_name}.tar.gz")
        top = Path(root_dir or ".")
        with (
            archive.open("wb") as file,
            gzip.GzipFile("", "wb", 9, file, made) as packed,
            tarfile.open(fileobj=packed, mode="w", format=tarfile.PAX_FORMAT) as tar,
        ):
            for path in sorted((top / base_dir).rglob("*")):
                tar.add(path, path.relative_to(top).as_posix(), recursive=False, filter=plain)
        return str(archive)


class WheelWithBill(bdist_wheel):
    """A wheel whose ``.dist-info/sboms`` says what in it comes from others."""

    def write_wheelfile(self, wheelfile_base: str, *arguments: str, **options: str) -> None:
        super().write_wheelfile(wheelfile_base, *arguments, **options)
        folder = Path(wheelfile_base) / "sboms"
        folder.mkdir(exist_ok=True)
        self.copy_file(str(BILL), str(folder / BILL.name), preserve_mode=False)


def read_description() -> str:
    """Return README.md with absolute links to the files of this version in the repository, if its address is given."""
    text = Path("README.md").read_text(encoding="utf-8")
    if not REPOSITORY:
        return text
    version = re.search(r'^__version__ = "(.*)"$', Path("kvstore/__init__.py").read_text(encoding="utf-8"), re.M)
    assert version is not None

    def make_absolute(link: re.Match[str]) -> str:
        is_image, label, path = link.groups()
        return f"{is_image}[{label}]({REPOSITORY}/{'raw' if is_image else 'blob'}/v{version[1]}/{path})"

    return re.sub(r"(!?)\[([^\]]*)\]\((?![a-z]+:|#)([^)\s]+)\)", make_absolute, text)


def list_project_urls() -> dict[str, str]:
    """Return the addresses that a package index shows."""
    pages = {
        "Repository": "",
        "Documentation": "/tree/main/docs",
        "Changelog": "/blob/main/CHANGELOG.md",
        "Issues": "/issues",
    }
    return {name: REPOSITORY + path for name, path in pages.items()} if REPOSITORY else {}


packages = [
    name
    for package, folder in PACKAGE_FOLDERS.items()
    for name in [package, *(f"{package}.{sub}" for sub in find_packages(folder))]
]
# CFLAGS wins: it precedes these options on the command line, which would override it.
asked = os.environ.get("CFLAGS", "")
# -O3 compiles a fifth longer, and no kernel runs faster with it.
options = [] if "-O" in asked else ["-O2"]
if sys.platform != "win32":
    # Debug information is nine tenths of a kernel and contains the build folder, so it is left out unless requested,
    # as `make sanitize` does.
    options += [f"-ffile-prefix-map={Path.cwd()}=."]
    options += [] if "-g" in asked else ["-g0"]
extensions = [
    Extension(
        f"kvstore_cext.{source.stem}",
        [source.as_posix()],
        depends=[path.as_posix() for pattern in ("*.pxd", "*.pxi") for path in sorted(Path("cext").glob(pattern))],
        extra_compile_args=options,
    )
    for source in sorted(Path("cext").glob("*.pyx"))
]
# Cython generates its source. It is first because it takes long to compile: last, it would be compiled alone.
extensions.insert(0, Extension(SHARED_UTILITY, ["cext/shared_utility.c"], extra_compile_args=options))

setup(
    long_description=read_description(),
    long_description_content_type="text/markdown",
    project_urls=list_project_urls(),
    packages=packages,
    package_dir=PACKAGE_FOLDERS,
    package_data={
        "": ["py.typed", "*.lark", "*.md"],
        "kvstore": [
            "sample/**/*",
            "models/bert/*",
            "models/minilm/*",
            "models/e5/*",
            "text/*.txt",
            "text/questions/*.toml",
            "integrations/explore/**/*",
        ],
        "kvstore_cext": ["*.pyi", "*.pxd"],
    },
    include_package_data=False,
    ext_modules=extensions,
    cmdclass={"build_ext": Kernels, "sdist": SourceArchive, "bdist_wheel": WheelWithBill},
    zip_safe=False,
)
