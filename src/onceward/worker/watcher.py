"""Looking for trouble: every five minutes one process looks, keeps what it finds, and reports it.

A thread of its own, on a connection of its own. A slow watch delays no lease, and a webhook that is down or hangs no
work: it is told later, from the stored row, by the first process to come to it. This thread also deletes old tasks.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from onceward.errors import StoreError
from onceward.model.retry import error_text
from onceward.model.watch import Finding, failed_watch
from onceward.settings.config import Config
from onceward.store.drivers.availability import database
from onceward.store.drivers.session import Session
from onceward.store.drivers.session_errors import ConnectionLost, TryAgainLater
from onceward.store.op import Op
from onceward.store.operations import alerts, watches
from onceward.support.logs import EngineLog
from onceward.views.alerts import Watch, as_alert
from onceward.worker.pruner import Pruner

ENGINE = ""
"""The name under which the rules of the engine are looked at, all together."""
FIRST_PAUSE_S, SHORTEST_PAUSE_S, LONGEST_PAUSE_S = 1.0, 1.0, 30.0
TELLING_LIMIT_S = 30.0
"""How long a look may tell a slow webhook of one alert after the other; the rest is for the next look."""
FIRST_RETRY_MS, LONGEST_RETRY_MS = 30_000, 900_000
"""When a webhook is tried again that could not be told; every further time takes twice as long."""

_AWAY = (StoreError, ConnectionLost, TryAgainLater)

logger = EngineLog("onceward.watcher")


class Watcher:
    """Looks and tells, for one process. A supervisor, which runs no code of the application, has no watches of it."""

    def __init__(
        self,
        session: Session,
        config: Callable[[], Config],
        declared: Iterable[Watch] = (),
        read: Callable[..., Any] | None = None,
    ) -> None:
        self._session = session
        self._config = config
        self._watches = {watch.name: watch for watch in declared}
        self._read = read
        self._stopping = threading.Event()
        self._pruner = Pruner(session, config, goes_on=lambda: not self._stopping.is_set())
        self._thread = threading.Thread(target=self._work, name="onceward watcher", daemon=True)

    def start(self) -> None:
        """Begin, in a thread."""
        self._thread.start()

    def stop(self, *, last_look: bool = False) -> None:
        """End. One that waits for a webhook is not waited for: another process will tell it.

        With `last_look` what is due is looked at before: a tick may be over before its first look.
        """
        self._stopping.set()
        self._thread.join(timeout=1.0)
        if last_look and not self._thread.is_alive():
            self._stopping.clear()
            self._guarded_step()

    def _work(self) -> None:
        pause_s = FIRST_PAUSE_S
        while not self._stopping.wait(pause_s):
            pause_s = self._guarded_step()

    def _guarded_step(self) -> float:
        """A step of a loop that must live: what goes wrong is logged, and the next look may do better."""
        try:
            to_next_ms = self.step()
            self._pruner.step()
            return min(max(SHORTEST_PAUSE_S, to_next_ms / 1_000), LONGEST_PAUSE_S)
        except _AWAY as error:
            database.note_failure(self._session, error)
        except Exception:
            logger.exception("looking at the watches, or deleting old tasks, failed")
        finally:
            self._session.close()  # it is needed for a moment, and then not for half a minute
        return LONGEST_PAUSE_S

    def step(self, *, at_once: bool = False) -> int:
        """Look at what is due, or at everything, and tell of what is to be told; returns the time to the next look."""
        config = self._config()
        every_ms = 0 if at_once else config.watch_every_ms
        looked = self._ask(alerts.read_looks)
        now = self._session.clock.now()
        to_next_ms = config.watch_every_ms
        for name in (ENGINE, *self._watches):
            age_ms = now - looked.get(name, -(10**15))
            if not -config.watch_every_ms <= age_ms < every_ms:
                if self._session.transact(lambda name=name: alerts.claim_look(name, now, every_ms)):  # type: ignore[misc]
                    self._look(name, config)
            else:
                to_next_ms = min(to_next_ms, config.watch_every_ms - age_ms)
        if config.alert_webhook:
            self._tell(config.alert_webhook, config.alert_format)
        return to_next_ms

    def _look(self, name: str, config: Config) -> None:
        now = self._session.clock.now()
        if name == ENGINE:
            self._look_at_engine(config, now)
            return
        try:
            assert self._read is not None
            found: Sequence[Finding] = self._read(self._watches[name].look, ())
        except KeyboardInterrupt:
            raise
        except (ConnectionLost, TryAgainLater) as error:
            database.note_failure(self._session, error)
        except BaseException as error:  # it is the application's code: a verdict or an exit must not end ours
            self._keep([_failed(name, error)], [], [], config, now)
        else:
            self._keep(found, [name], [name], config, now)

    def _look_at_engine(self, config: Config, now: int) -> None:
        look = self._ask(lambda: watches.begin_look(now, config.thresholds, self._session.log_bytes()))
        found: list[Finding] = []
        rules: list[str] = []
        fine: list[str] = []
        for names, find in watches.RULES:
            try:
                found += self._ask(lambda find=find: find(look))  # type: ignore[misc]
            except _AWAY:
                raise
            except Exception as error:
                found.append(_failed(names[0], error))
            else:
                rules += names
                fine.append(names[0])

        def tidy() -> Op[None]:
            yield from watches.store_samples(look)
            yield from alerts.delete_resolved(now - config.keep_ms)

        self._session.transact(tidy)
        self._keep(found, rules, fine, config, now)

    def _keep(
        self, found: Sequence[Finding], rules: Sequence[str], fine: Sequence[str], config: Config, now: int
    ) -> None:
        tells = bool(config.alert_webhook)
        change = self._session.transact(
            lambda: alerts.store_findings(found, rules=rules, watches=fine, now=now, tells=tells),
        )
        for one in change.raised:
            logger.warning(
                "alert",
                rule=one.rule,
                subject=one.subject,
                sentence=one.sentence,
                advice=one.advice,
                tasks=list(one.tasks),
            )
        for one in change.resolved:
            logger.info("alert resolved", rule=one.rule, subject=one.subject)
        if change.left_out:
            logger.warning("more of the same, not kept as alerts", count=change.left_out, rules=list(rules))

    def _tell(self, url: str, form: str) -> None:
        from onceward.worker.webhook import post  # not before: it takes all of urllib and http

        until = time.monotonic() + TELLING_LIMIT_S
        for number, tries in self._ask(lambda: alerts.due_deliveries(self._session.clock.now())):
            if self._stopping.is_set() or time.monotonic() > until:
                return
            now = self._session.clock.now()
            again_at = now + min(FIRST_RETRY_MS << min(tries, 10), LONGEST_RETRY_MS)
            alert = self._session.transact(
                lambda number=number, now=now, again_at=again_at: alerts.claim_delivery(number, now, again_at)  # type: ignore[misc]
            )
            if alert is None:
                continue
            answer = post(url, form, as_alert(alert))
            if answer.is_delivered:
                self._session.transact(lambda alert=alert: alerts.mark_delivered(alert, self._session.clock.now()))  # type: ignore[misc]
                continue
            logger.warning("the webhook could not be told", rule=alert.rule, why=answer.why, tries=alert.tries)
            if answer.is_away:
                return

    def _ask(self, operation: Callable[[], Op[Any]]) -> Any:
        return self._session.ask(operation)


def _failed(name: str, error: BaseException) -> Finding:
    logger.warning("a watch failed", watch=name, exc_info=error)
    return failed_watch(name, error_text(error))
