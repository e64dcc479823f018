#include "interrupts.h"

#include "convert.h"

namespace topicdb::java {

InterruptCheck InterruptsOf(JNIEnv* env, jclass native) {
  jmethodID ask = env->GetStaticMethodID(native, "isInterrupted", "()Z");
  CheckJava(env);
  return [env, native, ask] {
    const bool is_interrupted = env->CallStaticBooleanMethod(native, ask) != 0;
    return is_interrupted || env->ExceptionCheck() != 0;
  };
}

}  // namespace topicdb::java
