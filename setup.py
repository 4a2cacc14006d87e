"""What pyproject.toml cannot say: the Cython extensions and the packages whose folders carry shorter names."""

from __future__ import annotations

from pathlib import Path

from Cython.Build import cythonize
from setuptools import Extension, find_packages, setup

PACKAGE_FOLDERS = {
    "kvstore": "kvstore",
    "kvstore_cext": "cext",
    "kvstore_shell": "shell",
    "kvstore_migrations": "migrations",
}

packages = [
    name
    for package, folder in PACKAGE_FOLDERS.items()
    for name in [package, *(f"{package}.{sub}" for sub in find_packages(folder))]
]
extensions = [
    Extension(
        f"kvstore_cext.{source.stem}",
        [source.as_posix()],
        depends=[path.as_posix() for pattern in ("*.pxd", "*.pxi") for path in sorted(Path("cext").glob(pattern))],
        extra_compile_args=["-O3"],
    )
    for source in sorted(Path("cext").glob("*.pyx"))
]

setup(
    packages=packages,
    package_dir=PACKAGE_FOLDERS,
    package_data={
        "": ["py.typed", "*.lark", "*.md"],
        "kvstore": ["sample/**/*", "models/english/**/*", "text/*.txt"],
        "kvstore_cext": ["*.pyi", "*.pxd"],
    },
    include_package_data=False,
    ext_modules=cythonize(extensions, language_level=3, build_dir="build/cython"),
    zip_safe=False,
)
