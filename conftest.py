"""For every run of pytest, `pytest --nbval` included: no progress of anybody's is read or written, and no model is called."""

import os

os.environ["KEEL_PROGRESS"] = "off"
for name in [name for name in os.environ if name.startswith(("OPENAI_", "DEEPSEEK_")) or name == "KEEL_LOCAL_MODEL"]:
    del os.environ[name]
