"""Connections to PostgreSQL: what an address says of them, and what comes over them uninvited."""

from __future__ import annotations

import psycopg
import pytest

from onceward.model.times import StoreClock, SystemClock
from onceward.store.op import Query
from onceward.store.postgres import PostgresStore
from tests.pooler import IS_BETWEEN

UNLESS_SAID = {"tcp_user_timeout": "30000", "keepalives_idle": "10", "application_name": "onceward"}


@pytest.mark.parametrize(
    "said", [{}, {"tcp_user_timeout": "1500", "application_name": "shop"}], ids=["nothing", "more"]
)
def test_an_address_says_how_long_a_silent_server_is_waited_for(postgres_url: str, said: dict[str, str]) -> None:
    url = psycopg.conninfo.make_conninfo(postgres_url, **said)
    session = PostgresStore(url, StoreClock(SystemClock())).session()
    known = session.opened().info.get_parameters()
    session.close()
    wanted = {**UNLESS_SAID, **said}
    assert {name: known[name] for name in wanted} == wanted


@pytest.mark.skipif(IS_BETWEEN, reason="listens, in place of somebody else who had this connection before")
@pytest.mark.filterwarnings("ignore:using 'notifies.*together with notifies handlers")
def test_notifications_for_somebody_else_are_not_kept(postgres_url: str) -> None:
    session = PostgresStore(postgres_url, StoreClock(SystemClock())).session()
    connection = session.opened()
    connection.execute("LISTEN onceward")
    with psycopg.connect(postgres_url, autocommit=True) as other:
        for _ in range(3):
            other.execute("NOTIFY onceward, 'news'")
            session.run(Query("store_now"))
    assert list(connection.notifies(timeout=0)) == []
    session.close()
