"""ManifoldCF's repository and output connections as definitions of connections and policies."""

from typing import Any, Final

from jobs.definitions.manifoldcf.limits import Limits
from jobs.definitions.manifoldcf.nodes import Part

_PACKAGE: Final = "org.apache.manifoldcf."
REPOSITORIES: Final = {
    f"{_PACKAGE}crawler.connectors.webcrawler.WebcrawlerConnector": "web",
    f"{_PACKAGE}crawler.connectors.rss.RSSConnector": "feed",
    f"{_PACKAGE}crawler.connectors.filesystem.FileConnector": "filesystem",
}
_NULL: Final = f"{_PACKAGE}agents.output.nullconnector.NullConnector"
_ROBOTS: Final = "crawlctl always obeys robots.txt and robots directives of pages."
_BY_HAND: Final = "Enter logins, certificates and proxies by hand."

Definition = dict[str, Any]


def convert_output(part: Part) -> Definition:
    """Return the definition of an output. Each kind but the null output becomes the search index."""
    name, connector = part.take_one("name"), part.take_one("class_name")
    _common(part)
    if connector != _NULL:
        part.note(f"crawlctl has no output {connector}. The search index takes its place.")
        for configuration in part.take("configuration"):
            configuration.refuse("The search index has no configuration.")
    part.left()
    return {"definition": "output", "name": name, "connector": "null" if connector == _NULL else "search"}


def convert_repository(part: Part) -> tuple[Definition | None, Definition | None]:
    """Return the definitions of a repository and of its policy; None for a missing one."""
    name, connector = part.take_one("name"), part.take_one("class_name")
    kind = REPOSITORIES.get(connector)
    if kind is None:
        part.note(f"crawlctl has no connector {connector}. Its jobs are left out, too.")
        return None, None
    _common(part)
    group = part.take_one("acl_authority")
    limits = Limits()
    for throttle in part.take("throttle"):
        throttle.take("match_description")
        limits.add(throttle, throttle.take_one("match"), fetches=throttle.take_one("rate"))
        throttle.left()
    configuration: dict[str, Any] = {}
    for given in part.take("configuration"):
        if kind != "filesystem":
            configuration |= _parameters(given, limits)
        _bins(given, limits)
        for secret in (*given.take("accesscredential"), *given.take("trust")):
            secret.refuse(_BY_HAND)
        given.left()
    part.left()
    definition: Definition = {"definition": "repository", "name": name, "connector": kind}
    definition |= {"configuration": configuration} if configuration else {}
    # An import requires that the group exists, so it never creates a connection whose documents no authority protects.
    definition |= {"authority_group": group} if group else {}
    return definition, limits.policy(name)


def _common(part: Part) -> None:
    part.take("isnew")
    for description in part.take("description"):
        description.refuse("crawlctl has no descriptions of connections.")
    for most in part.take("max_connections"):
        most.refuse("Connections belong to hosts and workers. Policies limit them.")


def _parameters(given: Part, limits: Limits) -> dict[str, Any]:
    """
    Return the fields of a web or feed connection, from its parameters in ManifoldCF. Add the limits among them to
    `limits`.
    """
    configuration = {}
    of_feeds: dict[str, str] = {}
    for parameter in given.take("_PARAMETER_"):
        match parameter.take_attribute("name"):
            case "Email address":
                if email := parameter.take_text().strip():
                    configuration["user_agent"] = f"crawlctl/0.1 ({email})"
            case "Robots usage" | "Meta robots tags usage":
                if parameter.take_text().strip().lower() not in {"", "all"}:
                    parameter.note(_ROBOTS)
            case "KB per second" | "Max server connections" | "Max fetches per minute" as name:
                of_feeds[name] = parameter.take_text()
            case "User-Agent platform":
                if parameter.take_text().strip().lower() not in {"", "desktop"}:
                    parameter.note("Write the User-Agent of the connection by hand.")
            case str() as name if name.startswith("Proxy"):
                parameter.refuse(_BY_HAND)
            case name:
                parameter.refuse(f"crawlctl has no parameter {name!r}.")
    if of_feeds:
        limits.add(
            given,
            "",
            connections=of_feeds.get("Max server connections", ""),
            kilobytes=of_feeds.get("KB per second", ""),
            fetches=of_feeds.get("Max fetches per minute", ""),
        )
    return configuration


def _bins(given: Part, limits: Limits) -> None:
    for described in given.take("bindesc"):
        described.take_attribute("caseinsensitive")
        expression = described.take_attribute("binregexp")
        values = {}
        for name in ("maxconnections", "maxkbpersecond", "maxfetchesperminute"):
            found = described.take(name)
            values[name] = found[0].take_attribute("value") or found[0].take_text() if found else ""
        limits.add(
            described,
            expression,
            connections=values["maxconnections"],
            kilobytes=values["maxkbpersecond"],
            fetches=values["maxfetchesperminute"],
        )
        described.left()
