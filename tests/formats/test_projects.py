"""A project has one hash for all spellings of its path, and the name from its manifest or folder."""

import os
from hashlib import sha256
from pathlib import Path

import pytest

from treering.events.projects import HASH_DIGITS, project_hash, project_name, real_path


@pytest.mark.feature("N-21")
def test_all_spellings_of_a_folder_have_one_hash(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "work" / "Bakery"
    folder.mkdir(parents=True)
    (tmp_path / "link").symlink_to(folder, target_is_directory=True)
    expected = project_hash(folder)
    assert len(expected) == HASH_DIGITS
    assert set(expected) <= set("0123456789abcdef")
    for written in (
        f"{folder}/",
        f"{folder}//",
        f"{tmp_path}/work/../work/./Bakery",
        f"{tmp_path}/link",
        f"{tmp_path}/link/",
    ):
        assert project_hash(written) == expected
    monkeypatch.chdir(folder)
    assert project_hash(".") == expected
    assert project_hash(tmp_path / "work") != expected


@pytest.mark.feature("N-21")
def test_the_hash_is_the_same_in_every_run() -> None:
    assert project_hash("/no/such/place/bakery") == sha256(b"/no/such/place/bakery").hexdigest()[:16]


@pytest.mark.feature("N-21")
def test_letter_case_matters_on_a_case_sensitive_file_system(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    if (tmp_path / "A").exists():
        pytest.skip("this file system ignores letter case")
    (tmp_path / "A").mkdir()
    assert project_hash(tmp_path / "a") != project_hash(tmp_path / "A")


@pytest.mark.feature("N-21")
def test_case_does_not_matter_on_a_caseless_file_system(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "Work" / "Bakery").mkdir(parents=True)
    same = os.path.samefile

    def stored(path: str) -> str:
        """Return the path as a case-insensitive file system would find it."""
        found = ""
        for part in Path(path).parts:
            names = os.listdir(found) if found else []
            found = os.path.join(found, next((each for each in names if each.casefold() == part.casefold()), part))
        return found

    monkeypatch.setattr(os.path, "samefile", lambda first, second: same(stored(first), stored(second)))
    assert real_path(tmp_path / "WORK" / "bakery") == str(tmp_path / "Work" / "Bakery")
    assert project_hash(tmp_path / "WORK" / "bakery") == project_hash(tmp_path / "Work" / "Bakery")


@pytest.mark.feature("N-142")
def test_the_name_is_taken_from_the_manifest_or_else_the_folder(tmp_path: Path) -> None:
    folder = tmp_path / "bakery-main"
    folder.mkdir()
    assert project_name(folder) == "bakery-main"
    (folder / "pyproject.toml").write_text('[project]\nname = "oven"\n')
    assert project_name(folder) == "oven"
    (folder / "package.json").write_text('{"name": "@bakery/oven", "version": "1.0.0"}')
    assert project_name(f"{folder}/") == "@bakery/oven"
    assert project_name("/") == "/"


@pytest.mark.parametrize("text", ["", "{", "[]", '{"name": 7}', '{"version": "1"}', '{"name": " "}'])
def test_a_manifest_without_a_name_is_ignored(tmp_path: Path, text: str) -> None:
    folder = tmp_path / "bakery"
    folder.mkdir()
    (folder / "package.json").write_text(text)
    (folder / "pyproject.toml").write_text('project = "no table"')
    assert project_name(folder) == "bakery"
    (folder / "pyproject.toml").write_bytes(b"\xff[")
    assert project_name(folder) == "bakery"


@pytest.mark.parametrize("path", ["/work/\0/bakery", "/work/\ud800"])
def test_text_that_cannot_be_a_path_has_a_hash(path: str) -> None:
    assert real_path(path) == path
    assert project_hash(path) == project_hash(path) != project_hash("/work")
    assert project_name(path) == path.rpartition("/")[2]
