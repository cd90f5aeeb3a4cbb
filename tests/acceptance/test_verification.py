"""Proves that a damaged file is whole after its repair by command and the next run, and that nothing else was written."""

import json

from tests.support.processes import held_by, read_lines


def verify(cluster, *options):
    command = cluster.machine.start("verify_output", f"jsonl:{cluster.output}", *options)
    return command.wait(), command.out, command.err


def test_a_damaged_file_is_whole_after_the_repair_and_the_next_run(cluster, serve):
    site = serve(pages=150, hosts=1, traps=0)
    cluster.start("runmanager", "runworker")
    job = cluster.make_job(site, open_requests=8)
    assert cluster.run(job) == "finished"
    whole = held_by(cluster.output)
    code, shown, _ = verify(cluster)
    assert (code, f"100.000 % of {len(whole)} documents are in sync" in shown) == (0, True)

    lines = cluster.output.read_bytes().splitlines(keepends=True)
    lost = {json.loads(line)["url"] for line in lines[10:15]}
    torn = json.loads(lines[20])["url"]
    stale = {**json.loads(lines[30]), "version": "1:older"}
    ghost = {**json.loads(lines[40]), "url": site.start_url + "never"}
    kept = [*lines[:10], *lines[15:20], lines[20][:60] + b"\n", *lines[21:]]
    added = [json.dumps(facts, separators=(",", ":")).encode() + b"\n" for facts in (stale, ghost)]
    cluster.output.write_bytes(b"".join(kept + added))

    code, shown, errors = verify(cluster)
    assert (code, "Documents that differ: 8" in errors) == (1, True)
    assert "6 missing, 1 ghost, 1 stale" in shown
    assert "Damaged lines that were skipped: 1" in shown
    code, shown, errors = verify(cluster, "--repair")
    assert (code, errors, "Repaired documents: 8" in shown) == (0, "", True)
    before = len(cluster.output.read_bytes().splitlines())
    assert cluster.run(job) == "finished"

    written = cluster.output.read_bytes().splitlines()[before:]
    assert {json.loads(line)["url"] for line in written} == {*lost, torn, stale["url"]}
    code, shown, _ = verify(cluster)
    assert (code, "0 missing, 0 ghost, 0 stale" in shown) == (0, True)
    cluster.output.write_bytes(b"".join(line + b"\n" for line in _whole_lines(cluster.output)))
    assert held_by(cluster.output) == whole
    assert read_lines(cluster.output)


def _whole_lines(path):
    """Return the undamaged lines of a file. A repair leaves damaged lines in the file."""
    for line in path.read_bytes().splitlines():
        try:
            json.loads(line)
        except ValueError:
            continue
        yield line
