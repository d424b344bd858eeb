"""For every run of pytest, `pytest --nbval` included.

Nobody's progress is read or written, and no model is called.
"""

import os

os.environ["KEEL_PROGRESS"] = "off"
for name in [name for name in os.environ if name.startswith(("OPENAI_", "DEEPSEEK_")) or name == "KEEL_LOCAL_MODEL"]:
    del os.environ[name]
