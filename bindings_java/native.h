// The functions of io.topicdb.spark.core.Native, which says what they do. They convert, call the
// core and carry its errors: nothing else.
#pragma once

#include <jni.h>

// The JVM finds them by these names.
#define TOPICDB_NATIVE(type, name) \
  extern "C" JNIEXPORT type JNICALL Java_io_topicdb_spark_core_Native_##name
