//===- TorchTeam.cpp - PyTorch's OpenMP threads for calls -----------------===//
// SPDX-License-Identifier: Apache-2.0

#include "calls/TorchTeam.h"

#include "anabranch/Machine.h"

#include <cstdint>
#include <dlfcn.h>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <system_error>
#include <unistd.h>

namespace anabranch::python {

namespace {

using Body = void (*)(void *data, int number);
struct Region {
  Body body;
  void *data;
};

// Every OpenMP runtime has these functions.
int (*inParallel)() = nullptr;
int (*maxThreads)() = nullptr;
int (*threadNumber)() = nullptr;

/// GCC's entry: libgomp has it, and libomp and libiomp5 offer it too.
void (*gompParallel)(void (*)(void *), void *, unsigned threads,
                     unsigned flags) = nullptr;
/// LLVM's entry, which is variadic.
using Microtask = void (*)(int32_t *global, int32_t *bound, ...);
void (*kmpcForkCall)(void *place, int32_t arguments, Microtask, ...) = nullptr;

/// LLVM's `ident_t`: where in a program a region is.
struct Place {
  int32_t reserved = 0, flags = 2, more = 0, length = 0;
  const char *text = ";unknown;unknown;0;0;;";
};

const FrameworkTeam *lent = nullptr;

int teamSize() { return inParallel() ? 1 : maxThreads(); }

void runOn(Region *region) { region->body(region->data, threadNumber()); }

void runByGomp(Body body, void *data) {
  Region region{body, data};
  gompParallel([](void *given) { runOn(static_cast<Region *>(given)); },
               &region, static_cast<unsigned>(maxThreads()), 0);
}

void runMicrotask(int32_t *, int32_t *, Region *region) { runOn(region); }

void runByKmpc(Body body, void *data) {
  Region region{body, data};
  Place place;
  kmpcForkCall(&place, 1, reinterpret_cast<Microtask>(runMicrotask), &region);
}

/// PyTorch's own references are bound to the first definition in the process,
/// or in what libtorch links.
template <typename Function>
bool find(void *torch, const char *name, Function &function) {
  void *found = dlsym(RTLD_DEFAULT, name);
  if (!found)
    found = dlsym(torch, name);
  function = reinterpret_cast<Function>(found);
  return found;
}

bool hasTorch(const std::string &maps) {
  std::ifstream file(maps);
  for (std::string line; std::getline(file, line);)
    if (line.find("/libtorch_cpu.so") != std::string::npos)
      return true;
  return !file.is_open();
}

/// Whether this process was forked and runs no program of its own since.
bool isForked() {
  constexpr unsigned long forkedWithoutExec = 0x40;
  std::ifstream file("/proc/self/stat");
  std::string text;
  std::getline(file, text);
  // After the name: state, parent, group, session, terminal, its group, flags.
  std::istringstream fields(text.substr(text.rfind(')') + 1));
  std::string skipped;
  for (int i = 0; i < 6; ++i)
    fields >> skipped;
  unsigned long flags = 0;
  fields >> flags;
  return flags & forkedWithoutExec;
}

/// Whether the parent has forked this process. A process whose parent has ended
/// gets another one, which runs another program.
bool isParentOfFork(const std::string &parent) {
  std::error_code failed;
  auto ours = std::filesystem::read_symlink("/proc/self/exe", failed);
  return !failed &&
         std::filesystem::read_symlink(parent + "/exe", failed) == ours;
}

/// Whether a fork may have left this thread a team without its threads: OpenMP
/// then waits for them for ever. A parent that never had PyTorch cannot have
/// had a team. A parent that is gone may have.
bool mayLackThreads() {
  std::string parent = "/proc/" + std::to_string(::getppid());
  return isForked() && !(isParentOfFork(parent) && !hasTorch(parent + "/maps"));
}

} // namespace

void lendTorchTeam() {
  static const FrameworkTeam byGomp{teamSize, runByGomp, "OpenMP"},
      byKmpc{teamSize, runByKmpc, "OpenMP"};
  // Calls of packages ask again, and the search takes longer than a small call.
  static bool isDone = false;
  void *torch =
      isDone ? nullptr : dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD);
  if (!torch)
    return;
  isDone = true;
  if (!find(torch, "omp_in_parallel", inParallel) ||
      !find(torch, "omp_get_max_threads", maxThreads) ||
      !find(torch, "omp_get_thread_num", threadNumber) || mayLackThreads())
    return;
  if (find(torch, "GOMP_parallel", gompParallel))
    lent = &byGomp;
  else if (find(torch, "__kmpc_fork_call", kmpcForkCall))
    lent = &byKmpc;
  if (lent)
    setFrameworkTeam(lent);
}

const FrameworkTeam *torchTeam() { return lent; }

} // namespace anabranch::python
