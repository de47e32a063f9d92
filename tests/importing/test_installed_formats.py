"""Formats: those that other packages add by an entry point, as CONTRIBUTING.md says, and the page that lists ours."""

import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner

from treering import InvalidInput, SessionHost, plain_text
from treering.actors.transfer.exporting import export_names
from treering.cli.commands.transfer import export, import_
from treering.errors import ForeignFormatError
from treering.formats.programs import format_names, formats, table
from treering.sessions import Redaction

PROJECT = Path(__file__).resolve().parents[2]
WALK = (PROJECT / "CONTRIBUTING.md").read_text().partition("### Add a format")[2]
READER = WALK.partition("```python\n")[2].partition("```")[0]
"""The format that the walk in CONTRIBUTING.md adds."""


@pytest.fixture
def install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the path of imports, with the metadata of a package that adds the format "diary"."""
    site = tmp_path / "site"
    metadata = site / "diary_reader-1.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: diary-reader\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text(
        "[treering.formats]\ndiary = diary_reader:DiaryFormat\npi = diary_reader:DiaryFormat\n"
    )
    monkeypatch.syspath_prepend(site)
    monkeypatch.delitem(sys.modules, "diary_reader", raising=False)
    return site


async def imported(root: Path, source: Path, format: str | None) -> list[str]:
    async with SessionHost(root) as host:
        (report,) = await host.import_sessions(source, format=format)
        session = await host.load(report.id)
        return [plain_text(each.content) for each in await session.all_messages()]


@pytest.fixture
def diary(install: Path) -> Path:
    """The folder with the package, which now has its module."""
    (install / "diary_reader.py").write_text(READER)
    return install


@pytest.mark.feature("A-26")
@pytest.mark.usefixtures("diary")
@pytest.mark.parametrize("format", [None, "diary"])
async def test_a_package_adds_a_format(tmp_path: Path, format: str | None) -> None:
    source = tmp_path / "monday.txt"
    source.write_text("Dear diary\nIt rained.\nThen it stopped.\n")
    assert await imported(tmp_path / "root", source, format) == ["It rained.", "Then it stopped."]


@pytest.mark.usefixtures("diary")
async def test_an_import_from_it_can_be_repeated_and_reports_what_it_leaves_out(tmp_path: Path) -> None:
    folder = tmp_path / "diaries"
    folder.mkdir()
    (folder / "monday.json").write_text("Dear diary\nIt rained.\n# mind the roof\n")
    async with SessionHost(tmp_path / "root") as host:
        (report,) = await host.import_sessions(folder)
        assert (report.format, report.added, report.left_out[0].kind) == ("diary", 1, "remark")
        (folder / "monday.json").write_text("Dear diary\nIt rained.\n# mind the roof\nIt stopped.\n")
        (report,) = await host.import_sessions(folder)
        assert (report.entries, report.added) == (2, 1)


@pytest.mark.usefixtures("diary")
async def test_sessions_are_exported_to_it(tmp_path: Path) -> None:
    async with SessionHost(tmp_path / "root") as host:
        session = await host.create()
        await session.append_message("user", "It rained.")
        await session.append_message("assistant", "Then it stopped.")
        assert await session.export("diary") == b"Dear diary\nIt rained.\nThen it stopped.\n"
        path = await session.export("diary", tmp_path / "out")
        assert path.read_bytes() == b"Dear diary\nIt rained.\nThen it stopped.\n"
        with pytest.raises(InvalidInput, match="cannot be redacted"):
            await session.export("diary", redact=Redaction())
    assert await imported(tmp_path / "other", tmp_path / "out", None) == ["It rained.", "Then it stopped."]


@pytest.mark.feature("A-26")
@pytest.mark.usefixtures("diary")
def test_it_is_listed_with_ours(tmp_path: Path) -> None:
    assert format_names()[-1] == "diary"
    assert export_names()[-1] == "diary"
    assert table().splitlines()[-1] == "| Diary | `diary` | `~/diary` | `<day>.diary`, one thought per line. |  | yes |"
    for command in (import_, export):
        help = CliRunner().invoke(command, ["--help"]).output
        assert "diary" in help
        context = click.Context(command)
        (option,) = (each for each in command.params if each.name == "format_")
        assert [each.value for each in option.type.shell_complete(context, option, "dia")] == ["diary"]


@pytest.mark.interop
@pytest.mark.feature("A-26")
def test_a_package_that_pip_built_and_installed_is_found_by_import_list_and_docs(tmp_path: Path) -> None:
    """What the tests above show of metadata written by hand, of a real package, in processes that know only that."""
    project, site, root = tmp_path / "project", tmp_path / "site", tmp_path / "root"
    project.mkdir()
    (project / "diary_reader.py").write_text(READER)
    (project / "pyproject.toml").write_text(
        '[build-system]\nrequires = ["setuptools"]\nbuild-backend = "setuptools.build_meta"\n'
        '[project]\nname = "diary-reader"\nversion = "1"\n'
        '[tool.setuptools]\npy-modules = ["diary_reader"]\n'
        '[project.entry-points."treering.formats"]\ndiary = "diary_reader:DiaryFormat"\n'
    )
    environment = {**os.environ, "PYTHONPATH": str(site), "PYTHONWARNINGS": "ignore"}

    def ran(*arguments: str | Path) -> str:
        command = [sys.executable, "-m", *map(str, arguments)]
        done = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=tmp_path, check=False)
        assert done.returncode == 0, done.stderr
        return done.stdout

    ran("pip", "-q", "install", "--no-deps", "--no-index", "--no-build-isolation", "--target", site, project)
    (tmp_path / "monday.txt").write_text("Dear diary\nIt rained.\n")
    ran("treering.cli", "import", "monday.txt", "--root", root)
    assert "It rained." in ran("treering.cli", "context", "last", "--root", root)
    assert ran("treering.cli", "export", "last", "--format", "diary", "--root", root) == "Dear diary\nIt rained.\n"
    assert "diary" in ran("treering.cli", "import", "--help")
    assert "| Diary | `diary` | `~/diary` |" in ran("treering.formats.programs")


def test_the_page_lists_our_formats_as_their_classes_describe_them() -> None:
    assert f"\n{table()}\n" in (PROJECT / "docs" / "formats.md").read_text()


def test_each_of_our_formats_is_of_one_module_and_has_samples() -> None:
    data = PROJECT / "tests" / "data"
    for format in formats():
        assert (format.name, type(format).__doc__ or "") > ("", "")
        if type(format).__module__ != "treering.formats.own":
            assert type(format).__module__ == f"treering.formats.{format.name.replace('-', '_')}"
            assert (data / format.name.replace("-", "_") / "counts.txt").is_file()


def test_nothing_knows_a_program_but_its_own_module_and_its_adapter(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(PROJECT)
    from bench.source import imports, read_modules

    programs = {type(each).__module__ for each in formats()} - {"treering.formats.own"}
    modules = read_modules(PROJECT / "src" / "treering")
    names = {module.name for module in modules}

    def program_of(module: str) -> str:
        return next((each for each in programs if f"{module}.".startswith(f"{each}.")), "")

    known = [
        (each.name, imported)
        for each in modules
        for imported in imports(each, names)
        if program_of(imported) not in ("", program_of(each.name)) and not each.name.startswith("treering.adapters.")
    ]
    assert known == []


@pytest.mark.parametrize("source", ["import a_module_that_is_not_there\n", "class DiaryFormat: ...\n"])
async def test_a_package_that_cannot_be_used_is_named(install: Path, tmp_path: Path, source: str) -> None:
    (install / "diary_reader.py").write_text(source)
    async with SessionHost(tmp_path / "root") as host:
        with pytest.raises(ForeignFormatError, match=r"'diary' of diary_reader:DiaryFormat .* remove its package"):
            await host.import_sessions(tmp_path, format="diary")


async def test_an_unknown_format_is_refused_with_all_that_are_known(install: Path, tmp_path: Path) -> None:
    async with SessionHost(tmp_path / "root") as host:
        with pytest.raises(ForeignFormatError, match=r"'diry': choose 'native', .* or 'diary'"):
            await host.import_sessions(tmp_path, format="diry")
