#pragma once

#include <sys/wait.h>
#include <unistd.h>

namespace topicdb {

// Runs `body` in a forked child. Returns the exit code of the child, or -1 if a signal ended it.
template <typename Body>
int InChild(Body body) {
  const pid_t child = fork();
  if (child == 0) _exit(body());
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

}  // namespace topicdb
