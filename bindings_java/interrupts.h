// Lets Java end what the core does.
#pragma once

#include <jni.h>

#include "topicdb/interrupt.h"

namespace topicdb::java {

// Returns a check that asks Java whether the task of this thread shall end. The core calls it from
// the thread of `env`. `native` is the class Native. Throws JavaPending if the JVM refuses.
InterruptCheck InterruptsOf(JNIEnv* env, jclass native);

}  // namespace topicdb::java
