"""
Proves that the authority service asks the right systems, within its limits, and caches answers. Needs no database.
"""

import asyncio
import threading
from types import SimpleNamespace

import pytest

from jobs.authorities.service import limited_connection
from jobs.authorities.service.asking import Service
from jobs.authorities.service.cache import Cache
from jobs.authorities.service.plan import AuthorityFacts, Cycle, MapperFacts, Snapshot, chain, find_cycle
from jobs.connectors.authority.kind import Access, Limits, Status, Unreachable
from tests.support.tables import each_row


class Scripted:
    """An authority and a mapper whose answers a test decides."""

    def __init__(self, *, seconds=0.0, answer=None, hangs=False, waits=None):
        """For each question, `waits` is called and awaited before the answer."""
        self.seconds, self.answer, self.hangs, self.waits = seconds, answer, hangs, waits
        self.asked, self.at_once, self.most = [], 0, 0
        self.is_asked, self.has_ended = asyncio.Event(), asyncio.Event()
        self.is_closed = False

    async def access(self, user):
        self.asked.append(user)
        self.is_asked.set()
        self.has_ended.clear()
        self.at_once += 1
        self.most = max(self.most, self.at_once)
        try:
            if self.hangs:
                await asyncio.Event().wait()
            if self.waits:
                await self.waits()
            await asyncio.sleep(self.seconds)
            if isinstance(self.answer, Exception):
                raise self.answer
            return self.answer or Access(Status.AUTHORIZED, (f"token of {user}",))
        finally:
            self.at_once -= 1
            self.has_ended.set()

    async def map(self, user):
        self.asked.append(user)
        await asyncio.sleep(self.seconds)
        return self.answer(user)

    async def check(self):
        return

    async def close(self):
        self.is_closed = True


# Time limit of connections that hang (seconds). Other connections get a limit that a busy machine does not reach.
SHORT = Limits(seconds=0.3)


def authority(number, **facts):
    known = {"group": "g", "kind": "scripted", "configuration": {"is": number}, "limits": Limits(seconds=60)}
    return AuthorityFacts(id=number, name=f"a{number}", **{**known, **facts})


def mapper(number, **facts):
    return MapperFacts(id=number, name=f"m{number}", kind="scripted", configuration={}, limits=Limits(), **facts)


@pytest.fixture
def systems(monkeypatch):
    """Return a dictionary of the systems behind the connections. The key is the type of the facts and the id."""
    found = {}
    monkeypatch.setattr(limited_connection, "open_connection", lambda facts: found[type(facts), facts.id])
    return found


def service_of(systems, scripted, *, mappers=(), checks=10, lifetime=60.0, authorities=None, on_result=None):
    systems.update({(AuthorityFacts, number): one for number, one in enumerate(scripted, 1)})
    found = authorities or [authority(number) for number in range(1, len(scripted) + 1)]
    service = Service(checks=checks, lifetime=lifetime, **({"on_result": on_result} if on_result else {}))
    service.install(Snapshot(generation=None, authorities=found, mappers={one.id: one for one in mappers}))
    return service


async def test_only_authorities_of_the_given_domains_are_asked(systems):
    scripted = [Scripted(), Scripted(), Scripted()]
    authorities = [authority(1), authority(2, domain="ad"), authority(3, domain="other")]
    service = service_of(systems, scripted, authorities=authorities)

    answers = await service.ask({"": "alice", "ad": "ALICE"})

    assert [(one.authority.name, one.user) for one in answers] == [("a1", "alice"), ("a2", "ALICE")]
    assert [one.asked for one in scripted] == [["alice"], ["ALICE"], []]


@each_row(
    ("domains", "users", "asked"),
    [
        (["example.org"], {"EXAMPLE.ORG": "alice"}, [["alice"]]),
        (["EXAMPLE.ORG"], {"example.org": "alice"}, [["alice"]]),
        (["example.org"], {"EXAMPLE.ORG": "other", "example.org": "alice"}, [["alice"]]),
        (["example.org", "EXAMPLE.ORG"], {"EXAMPLE.ORG": "alice"}, [[], ["alice"]]),
        (["strasse.example"], {"straße.example": "alice"}, [[]]),
        ([""], {"EXAMPLE.ORG": "alice"}, [[]]),
    ],
)
async def test_a_domain_matches_in_any_case_unless_an_authority_has_it_exactly(systems, domains, users, asked):
    scripted = [Scripted() for _ in domains]
    authorities = [authority(number, domain=domain) for number, domain in enumerate(domains, 1)]
    service = service_of(systems, scripted, authorities=authorities)

    await service.ask(users)

    assert [one.asked for one in scripted] == asked


async def test_all_authorities_are_asked_concurrently(systems):
    # No authority answers before the last authority is asked.
    all_are_asked = asyncio.Barrier(10)
    service = service_of(systems, [Scripted(waits=all_are_asked.wait) for _ in range(10)])

    answers = await service.ask({"": "alice"})

    assert {one.access.status for one in answers} == {Status.AUTHORIZED}


async def test_the_pool_and_each_connection_limit_concurrent_questions(systems):
    one, other = Scripted(seconds=0.01), Scripted(seconds=0.01)
    limits = Limits(at_once=3, seconds=30)
    service = service_of(
        systems, [one, other], checks=4, authorities=[authority(1, limits=limits), authority(2, limits=limits)]
    )

    await asyncio.gather(*(service.ask({"": f"user {number}"}) for number in range(30)))

    assert (one.most, other.most) <= (3, 3)
    assert len(one.asked) == len(other.asked) == 30


async def test_a_hanging_authority_times_out_and_delays_no_other_authority(systems):
    scripted = [Scripted(hangs=True), *(Scripted() for _ in range(11))]
    authorities = [authority(1, limits=SHORT), *(authority(number) for number in range(2, 13))]
    service = service_of(systems, scripted, authorities=authorities)

    hung, *others = await service.ask({"": "alice"})

    assert hung.access.status is Status.UNREACHABLE
    assert "0.3 s" in hung.access.why
    assert {one.access.status for one in others} == {Status.AUTHORIZED}
    assert max(one.seconds for one in others) < hung.seconds
    assert hung.seconds >= SHORT.seconds


async def test_connections_that_hang_leave_the_pool_free(systems):
    limits = Limits(at_once=4, seconds=20)
    scripted = [*(Scripted(hangs=True) for _ in range(3)), Scripted()]
    authorities = [authority(number, limits=limits, domain=str(number)) for number in range(1, 5)]
    service = service_of(systems, scripted, checks=4, authorities=authorities)
    hanging = [
        asyncio.ensure_future(service.ask({str(domain): f"user {number}"}))
        for domain in (1, 2, 3)
        for number in range(4)
    ]
    await asyncio.sleep(0)

    (answer,) = await asyncio.wait_for(service.ask({"4": "alice"}), 10)

    assert answer.access.status is Status.AUTHORIZED
    for one in hanging:
        one.cancel()


async def test_a_silent_connection_gets_one_question_and_others_fail_immediately(systems):
    heard = []
    hung = Scripted(hangs=True)
    service = service_of(
        systems,
        [hung],
        authorities=[authority(1, limits=SHORT)],
        on_result=lambda facts, why: heard.append((facts.name, bool(why))),
    )
    await asyncio.gather(*(service.ask({"": f"user {number}"}) for number in range(3)))
    assert heard == [("a1", True)]

    hung.is_asked.clear()
    probe = asyncio.ensure_future(service.ask({"": "probe"}))
    await hung.is_asked.wait()
    (refused,) = await service.ask({"": "another"})

    assert refused.access.status is Status.UNREACHABLE
    assert "another" not in hung.asked
    assert not probe.done()
    await probe
    # The caller has the same time limit as the question, so it may give up a moment earlier.
    await hung.has_ended.wait()
    hung.hangs = False
    (answered,) = await service.ask({"": "later"})
    assert answered.access.status is Status.AUTHORIZED
    assert heard[-1] == ("a1", False)


async def test_a_connector_that_fails_is_unreachable_and_shows_no_secret(systems):
    service = service_of(systems, [Scripted(answer=ZeroDivisionError("the password is x")), Scripted()])

    failed, good = await service.ask({"": "alice"})

    assert (failed.access.status, failed.access.why) == (Status.UNREACHABLE, "The connector failed: ZeroDivisionError.")
    assert good.access.status is Status.AUTHORIZED


async def test_the_reason_of_silence_has_no_characters_that_postgresql_refuses(systems):
    heard = []
    service = service_of(
        systems,
        [Scripted(answer=Unreachable("no\0 \udcff"))],
        on_result=lambda _facts, why: heard.append(why),
    )

    for number in range(3):
        (answer,) = await service.ask({"": f"user {number}"})

    assert (answer.access.why, heard) == ("no? ?", ["no? ?"])


async def test_an_answer_is_kept_for_its_lifetime_and_a_failure_is_not(systems):
    good, bad = Scripted(), Scripted(answer=Unreachable("no"))
    service = service_of(systems, [good, bad])

    await service.ask({"": "alice"})
    kept, again = await service.ask({"": "alice"})

    assert (kept.is_kept, again.is_kept) == (True, False)
    assert (good.asked, bad.asked) == (["alice"], ["alice", "alice"])


async def test_equal_concurrent_questions_are_asked_once(systems):
    may_answer = asyncio.Event()
    scripted = Scripted(waits=may_answer.wait)
    service = service_of(systems, [scripted], lifetime=0)
    futures = [asyncio.ensure_future(service.ask({"": "alice"})) for _ in range(50)]
    # In a few steps of the event loop, each question reaches the connection, or waits for the same answer.
    for _ in range(20):
        await asyncio.sleep(0)

    may_answer.set()
    answers = await asyncio.gather(*futures)

    assert scripted.asked == ["alice"]
    assert {one.access.tokens for (one,) in answers} == {("token of alice",)}


async def test_a_change_clears_the_cache_and_answers_from_before_it_are_not_cached(systems):
    may_answer = asyncio.Event()
    old, new = Scripted(waits=may_answer.wait), Scripted(answer=Access(Status.AUTHORIZED, ("new",)))
    service = service_of(systems, [old])
    before = asyncio.ensure_future(service.ask({"": "alice"}))
    await old.is_asked.wait()

    systems[AuthorityFacts, 1] = new
    service.install(Snapshot(generation=None, authorities=[authority(1, configuration={"is": "new"})]))
    (during,) = await service.ask({"": "alice"})
    may_answer.set()
    await before
    (after,) = await service.ask({"": "alice"})

    assert during.access.tokens == after.access.tokens == ("new",)
    await service.close()
    assert old.is_closed
    assert new.is_closed


async def test_a_chain_of_mappings_gives_the_name_and_asks_each_mapper_once(systems):
    first, second = Scripted(answer=lambda user: f"{user}@x"), Scripted(answer=str.upper, seconds=0.01)
    systems.update({(MapperFacts, 1): first, (MapperFacts, 2): second})
    scripted = [Scripted(), Scripted()]
    authorities = [authority(1, prerequisite=2), authority(2, prerequisite=2)]
    service = service_of(systems, scripted, authorities=authorities, mappers=[mapper(1), mapper(2, prerequisite=1)])

    answers = await service.ask({"": "alice"})

    assert [one.user for one in answers] == ["ALICE@X", "ALICE@X"]
    assert (first.asked, second.asked) == (["alice"], ["alice@x"])


async def test_a_user_without_a_mapped_name_is_not_found(systems):
    systems[MapperFacts, 1] = Scripted(answer=lambda _user: None)
    scripted = Scripted()
    service = service_of(systems, [scripted], authorities=[authority(1, prerequisite=1)], mappers=[mapper(1)])

    (answer,) = await service.ask({"": "alice"})

    assert (answer.access.status, answer.user, scripted.asked) == (Status.USER_NOT_FOUND, None, [])


async def test_a_hanging_mapper_makes_its_authorities_unreachable_in_time(systems):
    systems[MapperFacts, 1] = Scripted(answer=str, seconds=30)
    authorities = [authority(1, prerequisite=1, limits=SHORT), authority(2)]
    service = service_of(systems, [Scripted(), Scripted()], authorities=authorities, mappers=[mapper(1)])

    mapped, free = await service.ask({"": "alice"})

    assert (mapped.access.status, free.access.status) == (Status.UNREACHABLE, Status.AUTHORIZED)
    assert mapped.seconds < 5


@each_row("name", ["", "a\nb", "a\x00", "\ud800", "x" * 1_001, "\u2028"])
async def test_an_invalid_user_name_is_not_sent_to_a_system(systems, name):
    scripted = Scripted()

    (answer,) = await service_of(systems, [scripted]).ask({"": name})

    assert (answer.access.status, scripted.asked) == (Status.USER_NOT_FOUND, [])


def test_mappings_in_a_circle_are_found():
    assert find_cycle([("a", "b"), ("b", "c"), ("c", "a")], start="a") == ["a", "b", "c", "a"]
    assert find_cycle([("a", "b"), ("b", "c"), ("c", "b")], start="a") == []
    assert find_cycle([("a", "a")], start="a") == ["a", "a"]
    with pytest.raises(Cycle, match="m1"):
        chain({1: mapper(1, prerequisite=2), 2: mapper(2, prerequisite=1)}, 1)


async def test_a_cached_answer_expires_after_its_lifetime():
    clock = SimpleNamespace(now=0.0)
    cache = Cache(lifetime=10, keeps=lambda _: True, clock=lambda: clock.now)

    async def asking():
        return threading.get_ident()

    await cache.ask("a", asking)
    clock.now = 9.9
    assert cache.find("a") is not None
    clock.now = 10
    assert cache.find("a") is None
    assert len(cache) == 0
