"""Is there a Java that Spark runs on?"""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path
from typing import Final

from tidewire.model.errors import Unavailable

JAVA_MIN: Final = 17
_ADVICE: Final = "on Debian or Ubuntu: sudo apt-get install openjdk-17-jre-headless; elsewhere set JAVA_HOME"


def java_version(home: str | None) -> int:
    """Of the Java in this folder, or on the path; Unavailable if there is none that Spark runs on."""
    found = shutil.which("java") if not home else str(Path(home) / "bin" / "java")
    if found is None or not Path(found).exists():
        where = f"there is none in JAVA_HOME={home}" if home else "none is on the path"
        raise Unavailable(f"the data cluster runs on Java 17 or 21, and {where}: {_ADVICE}")
    try:
        said = subprocess.run([found, "-version"], capture_output=True, text=True, timeout=30, check=True).stderr
    except (OSError, subprocess.SubprocessError) as error:
        raise Unavailable(f"{found} does not run: {error}. The data cluster runs on Java 17 or 21; {_ADVICE}") from None
    version = re.search(r'version "(\d+)', said)
    if version is None or int(version[1]) < JAVA_MIN:
        raise Unavailable(f"{found} is Java {version[1] if version else 'of no known version'}, too old: {_ADVICE}")
    return int(version[1])
