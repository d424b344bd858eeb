"""`python -m keel`: four proposals, four outcomes, as JSON."""

import json
import sys

from keel.lab.four import as_json, fire_four


def main() -> int:
    """Print the four canonical outcomes, in UTF-8 whatever the terminal says of itself."""
    sys.stdout.reconfigure(encoding="utf-8")
    outcomes = [as_json(request, result) for request, result in fire_four()]
    print(json.dumps(outcomes, indent=2, ensure_ascii=False))
    return 0


if __name__ == "__main__":
    sys.exit(main())
