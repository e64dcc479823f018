"""The tests run with the package that a user installs."""

import shutil
import subprocess
import sys
import zipfile
from importlib.metadata import files, version
from importlib.util import find_spec
from pathlib import Path

import pytest

import topicdb

REPOSITORY = Path(__file__).resolve().parents[3]


@pytest.mark.installed
def test_the_tests_import_the_installed_wheel() -> None:
    assert not Path(topicdb.__file__).is_relative_to(REPOSITORY / "python")
    assert Path(topicdb._core.__file__).parent == Path(topicdb.__file__).parent
    assert version("topicdb") == topicdb.__version__


@pytest.mark.installed
def test_the_wheel_holds_the_typed_package_and_the_licences() -> None:
    names = {str(name) for name in files("topicdb") or []}
    assert {"topicdb/py.typed", "topicdb/_core.pyi", "topicdb/cli/__init__.py"} <= names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert not [name for name in names if name.endswith((".cc", ".h", ".a"))]


@pytest.mark.installed
@pytest.mark.skipif(
    sys.platform != "linux" or not shutil.which("javac") or not find_spec("pyspark"),
    reason="what the Spark connector is built with is missing",
)
def test_the_wheel_holds_the_spark_connector() -> None:
    import topicdb.spark

    assert "topicdb/spark/jars/topicdb-spark.jar" in {str(name) for name in files("topicdb") or []}
    with zipfile.ZipFile(topicdb.spark.jar()) as jar:
        names = set(jar.namelist())
        version_of_jar = jar.read("io/topicdb/spark/version").decode().strip()
        platform = jar.read("native/platforms").decode().strip()
        libraries = jar.read(f"native/{platform}/files").decode().split()
    assert version_of_jar == topicdb.__version__
    assert "libtopicdb_jni.so" in libraries
    assert {f"native/{platform}/{name}" for name in libraries} <= names


def test_importing_it_leaves_out_what_few_programs_need() -> None:
    program = """
import sys, topicdb
heavy = {"numpy", "pyarrow", "topicdb.forward", "topicdb.replay", "topicdb.spark"}
assert not heavy & set(sys.modules), heavy & set(sys.modules)
assert set(topicdb.__all__) <= set(dir(topicdb))
assert issubclass(topicdb.ReplayError, topicdb.Error) and topicdb.Forwarder.__init__
try:
    topicdb.Nothing
except AttributeError as error:
    assert str(error) == "module 'topicdb' has no attribute 'Nothing'"
else:
    sys.exit("no error")
"""
    subprocess.run([sys.executable, "-c", program], check=True)
