//===- ForeignProcess.cpp - runs kernels of another architecture ----------===//
// SPDX-License-Identifier: Apache-2.0

#include "support/native/ForeignProcess.h"

#include "gtest/gtest.h"

#include <csignal>
#include <cstdlib>
#include <cstring>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

namespace anabranch {
namespace native {
namespace {

/// The core of the emulator for a target: the first that has its features, so
/// that an instruction which the target lacks is illegal.
const char *emulatedCore(const TargetInfo &target) {
  bool isPlain = !target.isa().has(Multiply::DotBF16);
  return isPlain ? "neoverse-n1" : "max";
}

} // namespace

bool ForeignProcess::emulates(const TargetInfo &target) {
#ifdef ANABRANCH_EMULATOR
  return llvm::StringRef(target.architecture().name) == ANABRANCH_EMULATED;
#else
  (void)target;
  return false;
#endif
}

std::shared_ptr<ForeignProcess> ForeignProcess::load(const TargetInfo &target,
                                                     const std::string &path) {
  std::shared_ptr<ForeignProcess> process(new ForeignProcess);
  if (process->start(target) && process->ask(ANABRANCH_LOAD, path) == 1)
    return process;
  return nullptr;
}

bool ForeignProcess::start(const TargetInfo &target) {
#ifdef ANABRANCH_EMULATOR
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return false;
  socket = ends[0];
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], 0);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  const char *argv[] = {ANABRANCH_EMULATOR,
                        "-L",
                        ANABRANCH_EMULATED_ROOT,
                        "-cpu",
                        emulatedCore(target),
                        ANABRANCH_FOREIGN_MAIN,
                        nullptr};
  int error = ::posix_spawn(&pid, argv[0], &actions, nullptr,
                            const_cast<char *const *>(argv), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  return error == 0;
#else
  (void)target;
  (void)emulatedCore;
  return false;
#endif
}

ForeignProcess::~ForeignProcess() {
  ::close(socket);
  if (pid < 0)
    return;
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
}

bool ForeignProcess::send(const void *data, size_t bytes) const {
  for (const auto *at = static_cast<const char *>(data); bytes;) {
    ssize_t sent = ::send(socket, at, bytes, MSG_NOSIGNAL);
    if (sent <= 0)
      return false;
    at += sent;
    bytes -= size_t(sent);
  }
  return true;
}

bool ForeignProcess::receive(void *data, size_t bytes) const {
  for (auto *at = static_cast<char *>(data); bytes;) {
    ssize_t got = ::read(socket, at, bytes);
    if (got <= 0)
      return false;
    at += got;
    bytes -= size_t(got);
  }
  return true;
}

/// The system refuses to copy a page that this process may not read.
bool ForeignProcess::sendPage(uint64_t address) const {
  char page[ANABRANCH_FOREIGN_PAGE];
  int ends[2];
  if (::pipe(ends) != 0)
    return false;
  // NOLINTNEXTLINE(performance-no-int-to-ptr): the other process names it.
  const void *at = reinterpret_cast<const void *>(address);
  uint64_t isThere = ::write(ends[1], at, sizeof page) == sizeof page &&
                     ::read(ends[0], page, sizeof page) == sizeof page;
  ::close(ends[0]);
  ::close(ends[1]);
  if (!isThere)
    ADD_FAILURE() << "the kernel touches address " << at
                  << ", where there is no memory";
  return send(&isThere, sizeof isThere) &&
         (!isThere || send(page, sizeof page));
}

uint64_t ForeignProcess::ask(uint64_t kind, const std::string &name,
                             std::initializer_list<uint64_t> arguments,
                             uint64_t times) {
  anabranch_foreign_request request = {};
  request.kind = kind;
  request.times = times;
  std::copy(arguments.begin(), arguments.end(), request.arguments);
  name.copy(request.name, sizeof request.name - 1);
  anabranch_foreign_note note;
  bool isAlive = send(&request, sizeof request);
  while (isAlive && (isAlive = receive(&note, sizeof note))) {
    if (note.kind == ANABRANCH_DONE)
      return note.value;
    if (note.kind == ANABRANCH_WANTS)
      isAlive = sendPage(note.value);
    else
      // NOLINTNEXTLINE(performance-no-int-to-ptr): this process has named it.
      isAlive = receive(reinterpret_cast<void *>(note.value), note.bytes);
  }
  ADD_FAILURE() << "the emulated process ended in " << name;
  return uint64_t(-1);
}

} // namespace native
} // namespace anabranch
