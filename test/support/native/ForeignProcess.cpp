//===- ForeignProcess.cpp - runs kernels of another architecture ----------===//
// SPDX-License-Identifier: Apache-2.0

#include "support/native/ForeignProcess.h"

#include "gtest/gtest.h"

#include <cinttypes>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

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

anabranch_foreign_request
requestOf(uint64_t kind, const std::string &name,
          std::initializer_list<uint64_t> arguments = {}, uint64_t times = 1) {
  anabranch_foreign_request request = {};
  request.kind = kind;
  request.times = times;
  std::copy(arguments.begin(), arguments.end(), request.arguments);
  name.copy(request.name, sizeof request.name - 1);
  return request;
}

/// As far as Linux lets the stack of a process grow, and more.
constexpr uint64_t stackGrowth = uint64_t(64) << 20;

bool isStack(const std::string &line) {
  return line.find("[stack]") != std::string::npos;
}

using Ranges = std::vector<std::pair<uint64_t, uint64_t>>;

/// The addresses of a process, in order, without the page of the kernel that
/// every process has. Those below a stack count as the stack's: a touch there
/// lets it grow, and finds zeros.
Ranges addressesOf(const std::string &process) {
  std::ifstream maps("/proc/" + process + "/maps");
  Ranges ranges;
  for (std::string line; std::getline(maps, line);) {
    uint64_t begin = 0, end = 0;
    if (std::sscanf(line.c_str(), "%" SCNx64 "-%" SCNx64, &begin, &end) == 2 &&
        begin >> 63 == 0)
      ranges.emplace_back(isStack(line) ? begin - stackGrowth : begin, end);
  }
  return ranges;
}

/// Whether a page of this process and one of the emulator have one address. An
/// access to it would not fault: the kernel would read and write the
/// emulator's memory.
bool sharesAddresses(int pid) {
  Ranges ours = addressesOf("self"), theirs = addressesOf(std::to_string(pid));
  for (auto a = ours.begin(), b = theirs.begin();
       a != ours.end() && b != theirs.end();)
    if (a->second <= b->first)
      ++a;
    else if (b->second <= a->first)
      ++b;
    else
      return true;
  return false;
}

} // namespace

bool ForeignProcess::emulates(const TargetInfo &target) {
#ifdef ANABRANCH_EMULATOR
  static const bool isAsked = std::getenv("ANABRANCH_EMULATE") != nullptr;
  return isAsked &&
         llvm::StringRef(target.architecture().name) == ANABRANCH_EMULATED;
#else
  (void)target;
  return false;
#endif
}

std::shared_ptr<ForeignProcess> ForeignProcess::load(const TargetInfo &target,
                                                     const std::string &path) {
  std::shared_ptr<ForeignProcess> process(new ForeignProcess);
  process->core = emulatedCore(target);
  // The caller's file may go before a second process loads it.
  process->library = path + ".kept";
  if (::link(path.c_str(), process->library.c_str()) != 0)
    return nullptr;
  return process->start() ? process : nullptr;
}

bool ForeignProcess::start() {
#ifdef ANABRANCH_EMULATOR
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return false;
  socket = ends[0];
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], 0);
  ::posix_spawn_file_actions_adddup2(&actions, ends[1], 1);
  const char *argv[] = {
      ANABRANCH_EMULATOR,     "-L",   ANABRANCH_EMULATED_ROOT, "-cpu", core,
      ANABRANCH_FOREIGN_MAIN, nullptr};
  int error = ::posix_spawn(&pid, argv[0], &actions, nullptr,
                            const_cast<char *const *>(argv), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  ::close(ends[1]);
  return error == 0 && serve(requestOf(ANABRANCH_LOAD, library)) == 1;
#else
  return false;
#endif
}

void ForeignProcess::stop() {
  ::close(socket);
  socket = -1;
  if (pid < 0)
    return;
  ::kill(pid, SIGKILL);
  ::waitpid(pid, nullptr, 0);
  pid = -1;
}

bool ForeignProcess::restart() {
  stop();
  return start();
}

ForeignProcess::~ForeignProcess() {
  stop();
  ::unlink(library.c_str());
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

std::optional<uint64_t>
ForeignProcess::serve(const anabranch_foreign_request &request) {
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
  return std::nullopt;
}

uint64_t ForeignProcess::ask(uint64_t kind, const std::string &name,
                             std::initializer_list<uint64_t> arguments,
                             uint64_t times) {
  anabranch_foreign_request request = requestOf(kind, name, arguments, times);
  // An address of this process may be taken in the other one. The system places
  // the next one elsewhere.
  constexpr int attempts = 8;
  for (int attempt = 0; attempt < attempts; ++attempt)
    if (auto result = sharesAddresses(pid) ? std::nullopt : serve(request))
      return *result;
    else if (!restart())
      break;
  ADD_FAILURE() << "the emulated process ended in " << name;
  return uint64_t(-1);
}

} // namespace native
} // namespace anabranch
