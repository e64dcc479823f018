# Looks for what the Spark connector in Java needs: a JDK, and the JARs of Spark that have its API. Sets
# TOPICDB_SPARK_FOUND, TOPICDB_JAVAC, TOPICDB_JAR and TOPICDB_JNI_INCLUDES. Without them the package is built
# without the connector, and format("topicdb") in Python does its work.
set(TOPICDB_SPARK_JARS "" CACHE PATH
  "Folder with the JARs of Spark. Empty: that of the PySpark that the building Python has")

set(TOPICDB_GRPC_JAR "" CACHE FILEPATH
  "The JAR that scripts/grpc_java.sh makes. Empty: the connector is built without the option remote")

# Sets `variable` to the folder of the JARs, or to nothing.
function(topicdb_find_spark_jars variable)
  set(folder "${TOPICDB_SPARK_JARS}")
  if(NOT folder)
    execute_process(
      COMMAND "${Python_EXECUTABLE}" -c "from importlib.util import find_spec
found = find_spec('pyspark')
print(found.submodule_search_locations[0] + '/jars' if found else '')"
      OUTPUT_VARIABLE folder OUTPUT_STRIP_TRAILING_WHITESPACE)
  endif()
  file(GLOB api "${folder}/spark-sql-api_*.jar")
  if(NOT api)
    set(folder "")
  endif()
  set(${variable} "${folder}" PARENT_SCOPE)
endfunction()

# A JDK that JAVA_HOME names comes first, and one that is in the path otherwise.
find_program(TOPICDB_JAVAC javac HINTS ENV JAVA_HOME PATH_SUFFIXES bin)
find_program(TOPICDB_JAR jar HINTS ENV JAVA_HOME PATH_SUFFIXES bin)
set(TOPICDB_SPARK_FOUND FALSE)
topicdb_find_spark_jars(TOPICDB_SPARK_JARS_FOUND)
if(NOT CMAKE_SYSTEM_NAME STREQUAL "Linux" OR CMAKE_CROSSCOMPILING)
  message(STATUS "Without the Spark connector in Java: it is built on Linux, for the machine that builds it")
elseif(NOT TOPICDB_JAVAC OR NOT TOPICDB_JAR)
  message(STATUS "Without the Spark connector in Java: there is no JDK (javac, jar)")
elseif(NOT TOPICDB_SPARK_JARS_FOUND)
  message(STATUS "Without the Spark connector in Java: neither the building Python nor TOPICDB_SPARK_JARS has "
    "Spark's JARs")
else()
  file(REAL_PATH "${TOPICDB_JAVAC}" javac)
  cmake_path(GET javac PARENT_PATH folder)
  cmake_path(GET folder PARENT_PATH home)
  set(TOPICDB_JNI_INCLUDES "${home}/include" "${home}/include/linux")
  if(EXISTS "${home}/include/jni.h")
    set(TOPICDB_SPARK_FOUND TRUE)
    message(STATUS "Spark connector in Java: ${home}, ${TOPICDB_SPARK_JARS_FOUND}")
    if(NOT TOPICDB_GRPC_JAR)
      message(STATUS "Spark connector in Java: without the option remote, since TOPICDB_GRPC_JAR is not set")
    endif()
  else()
    message(STATUS "Without the Spark connector in Java: ${home} has no include/jni.h")
  endif()
endif()

# The version stands in one place.
file(STRINGS "${CMAKE_CURRENT_SOURCE_DIR}/python/topicdb/__init__.py" line REGEX "^__version__ = ")
string(REGEX REPLACE "^__version__ = \"(.*)\"$" "\\1" TOPICDB_VERSION "${line}")
