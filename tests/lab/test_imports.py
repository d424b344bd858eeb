"""What the lab costs to import: nothing of Jupyter, until a widget is shown."""

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
MODULES = ["catalogue", "prompts", "exercises", "exercises.ch01", "strip", "checkup", "failures", "progress_file"]


def test_importing_the_lab_loads_nothing_of_jupyter():
    code = "import sys\n" + "".join(f"import keel.lab.{name}\n" for name in MODULES)
    code += (
        "print([m for m in ('IPython', 'ipywidgets', 'ipykernel', 'matplotlib', 'platformdirs') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
