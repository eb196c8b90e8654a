"""A training that is killed."""

from collections.abc import Callable

import pytest

from headbook.training.loop import Trainer

Kill = Callable[[int, Callable[[], object]], None]


class Killed(BaseException):
    """No Exception: nothing may catch it."""


@pytest.fixture
def killed_at(monkeypatch: pytest.MonkeyPatch) -> Kill:
    """Makes something whose training dies before an update; a checkpoint stands behind each."""
    update, begin = Trainer._update, Trainer.__init__

    def often(self, *arguments, **named):
        begin(self, *arguments, **named)
        self.save_every = 0.0

    def kill(last: int, make: Callable[[], object]) -> None:
        def dies(self, batch):
            if self.progress.update == last:
                raise Killed
            return update(self, batch)

        monkeypatch.setattr(Trainer, "__init__", often)
        with monkeypatch.context() as patch:
            patch.setattr(Trainer, "_update", dies)
            with pytest.raises(Killed):
                make()

    return kill
