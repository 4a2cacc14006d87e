"""Workflows: everything that they run exists, and third-party actions are pinned by commit."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import kvstore
from kvstore_shell.cli import cli

ROOT = Path(__file__).resolve().parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
USES = re.compile(r"^\s*-?\s*uses: (?P<action>\S+)(?P<comment>.*)$", re.MULTILINE)
PINNED = re.compile(r"[\w.-]+/[\w./-]+@[0-9a-f]{40}")


def test_there_are_workflows_for_tests_browser_wheels_and_publishing() -> None:
    assert {path.stem for path in WORKFLOWS} == {"browser", "publish", "test", "wheels"}


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_an_action_is_a_local_file_or_a_commit_with_its_version(path: Path) -> None:
    for action, comment in USES.findall(path.read_text(encoding="utf-8")):
        if action.startswith("./"):
            assert (ROOT / action).is_file(), action
        else:
            assert PINNED.fullmatch(action), f"{action} may be moved by its owner; name a commit"
            assert re.fullmatch(r" # v\d+\.\d+\.\d+", comment), f"{action}: which version is this?"


def test_an_action_has_one_version_in_all_workflows() -> None:
    used = {use for path in WORKFLOWS for use in USES.findall(path.read_text(encoding="utf-8"))}
    actions = [action.partition("@")[0] for action, _ in used if not action.startswith("./")]
    assert len(actions) == len(set(actions)), sorted(used)


def test_targets_of_workflows_are_in_the_makefile() -> None:
    targets = set(re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    used_targets = {
        target for path in WORKFLOWS for target in re.findall(r"run: make ([\w-]+)", path.read_text(encoding="utf-8"))
    }
    assert used_targets <= targets, used_targets - targets


def test_wheels_are_built_for_the_versions_of_python_that_are_named() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    versions = set(re.findall(r'"Programming Language :: Python :: 3\.(\d+)"', project))
    assert set(re.findall(r'"cp3(\d+)-\*"', project)) == versions
    tested = (ROOT / ".github" / "workflows" / "test.yml").read_text(encoding="utf-8")
    (matrix,) = re.findall(r"^ +python: \[(.*)\]$", tested, re.MULTILINE)
    assert set(re.findall(r'"3\.(\d+)"', matrix)) == versions  # no wheel is published before them


def test_a_tag_of_the_version_may_be_published_and_no_other() -> None:
    publishing = (ROOT / ".github" / "workflows" / "publish.yml").read_text(encoding="utf-8")
    step = re.search(r"name: The tag is the version.*\n +run: \|\n((?: {10}.*\n)+)", publishing)
    assert step is not None
    for tag, refused in ((f"v{kvstore.__version__}", False), ("v0.0.1", True)):
        environment = {**os.environ, "GITHUB_REF_NAME": tag}
        run = subprocess.run(["bash", "-e", "-c", step[1]], cwd=ROOT, env=environment, capture_output=True, check=False)
        assert (run.returncode != 0) == refused, tag


@pytest.mark.slow
@pytest.mark.parametrize(
    ("schema", "paths"),
    [
        ("github-workflows", WORKFLOWS),
        ("github-issue-forms", sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("[!c]*.yml"))),
        ("github-issue-config", [ROOT / ".github" / "ISSUE_TEMPLATE" / "config.yml"]),
        ("compose-spec", [ROOT / "tools" / "docker" / "compose.yml"]),
    ],
)
def test_files_follow_their_published_schemas(schema: str, paths: list[Path]) -> None:
    run = run_program("check-jsonschema", "--builtin-schema", f"vendor.{schema}", *paths)
    assert paths and run.returncode == 0, run.stdout + run.stderr


def test_the_container_is_slim_has_one_volume_and_runs_a_command_of_the_package_as_no_root() -> None:
    folder = ROOT / "tools" / "docker"
    text = (folder / "Dockerfile").read_text(encoding="utf-8")
    instructions = [line.partition(" ") for line in text.splitlines() if re.match("[A-Z]+ ", line)]
    bases = [arguments for name, _, arguments in instructions if name == "FROM"]
    assert bases[-1] == f"{bases[0].removesuffix(' AS wheels')}-slim"
    assert [(name, arguments) for name, _, arguments in instructions[-5:]] == [
        ("USER", "10001"),
        ("WORKDIR", "/home/kvstore"),
        ("VOLUME", "/data"),
        ("ENTRYPOINT", '["kvstore"]'),
        ("CMD", '["--help"]'),
    ]
    assert text.count("VOLUME") == 1
    (command,) = re.findall(r"command: \[(.*)\]", (folder / "compose.yml").read_text(encoding="utf-8"))
    name, store, *options = [word.strip('" ') for word in command.split(",")]
    assert store.startswith("/data/")
    cli.commands[name].make_context(name, [store, *options])


@pytest.mark.slow
def test_the_dockerfile_has_no_findings() -> None:
    linter = shutil.which("hadolint")
    if linter is None:
        pytest.skip("hadolint is not installed")
    run = subprocess.run(
        [linter, ROOT / "tools" / "docker" / "Dockerfile"], capture_output=True, text=True, check=False
    )
    assert (run.returncode, run.stdout) == (0, "")


@pytest.mark.slow
def test_workflows_give_away_nothing(tmp_path: Path) -> None:
    """Workflows expose no secrets and permissions, and never run user-supplied text as a command."""
    run = run_program("zizmor", "--offline", "--quiet", "--no-progress", ROOT / ".github")
    assert run.returncode == 0, run.stdout + run.stderr
    bad = tmp_path / "bad.yml"
    bad.write_text(
        "on: pull_request_target\njobs:\n  greet:\n    runs-on: ubuntu-24.04\n    steps:\n"
        "      - run: echo ${{ github.event.pull_request.title }}\n"
    )
    assert "template-injection" in run_program("zizmor", "--offline", "--no-progress", bad).stdout


def run_program(program: str, *arguments: object) -> subprocess.CompletedProcess[str]:
    path = Path(sys.executable).with_name(program)
    if not path.exists():
        pytest.skip(f"{program} is not installed; it is of the extra `test-slow`")
    return subprocess.run([path, *map(str, arguments)], capture_output=True, text=True, check=False, timeout=120)
