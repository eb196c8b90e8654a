"""A package of an extra that is missing is one line, in a clone and outside of one."""

import re
import sys

import pytest
from refusing import assert_one_line, headbook, refused

import headbook as hb
from headbook import extras, paths


@pytest.mark.parametrize("clone", [True, False])
@pytest.mark.parametrize(
    ("module", "extra"),
    [("lightning_fabric.fabric", "train"), ("google.protobuf", "models")],
)
def test_the_extra_is_named(module: str, extra: str, clone: bool, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(paths, "CLONE", clone)
    if not clone:  # as an installed wheel's record has it
        package = module.partition(".")[0]
        line = f'{extras.IMPORTED.get(package, package.replace("_", "-"))}>=1; extra == "{extra}"'
        monkeypatch.setattr(extras, "requires", lambda name: ["torch>=1", line])
    wanted = f"-e '.[{extra}]'" if clone else f"'headbook[{extra}]'"
    with refused(re.escape(wanted)), extras.extras():
        raise ModuleNotFoundError("no module", name=module)


def test_what_no_extra_brings_is_no_mistake_of_the_user():
    with pytest.raises(ModuleNotFoundError), extras.extras():
        raise ModuleNotFoundError("no module", name="torch")


def test_a_public_name_and_a_command_say_it_in_a_line(monkeypatch: pytest.MonkeyPatch):
    def without(name: str) -> None:
        raise ModuleNotFoundError("no module", name="lightning_fabric")

    monkeypatch.setattr(hb, "import_module", without)
    with refused("lightning-fabric is not installed: .*train"):
        hb.measure  # noqa: B018
    monkeypatch.setattr(extras, "of", lambda package: "book")
    monkeypatch.setitem(sys.modules, "headbook.publishing.notebooks", None)
    assert_one_line(headbook("run", "13"), "is not installed")
