"""What a command finds when it begins."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

ASKING = """
import gc, runpy, sys
sys.argv = ["manage.py", "diffsettings"]
runpy.run_path("manage.py", run_name="__main__")
print(gc.isenabled(), gc.get_freeze_count() > 10_000)
"""


def test_a_command_collects_garbage_among_what_it_makes_itself():
    asked = subprocess.run([sys.executable, "-c", ASKING], cwd=ROOT, capture_output=True, text=True, check=True)

    assert asked.stdout.splitlines()[-1] == "True True"
