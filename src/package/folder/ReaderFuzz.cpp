//===- ReaderFuzz.cpp - arbitrary bytes as files of a package -------------===//
// SPDX-License-Identifier: Apache-2.0
//
// The first byte says which file the other bytes are. Nothing may crash, and a
// program that passes can be written and read again. If the environment has
// ANABRANCH_FUZZ_SEEDS=<folder>, the fuzzer writes seeds there and ends.

#include "package/files/Manifest.h"
#include "package/files/Safetensors.h"
#include "package/folder/Reader.h"
#include "support/package/TestPrograms.h"

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sys/mman.h>
#include <unistd.h>

using namespace anabranch;
using namespace anabranch::package;

namespace {

void require(bool holds) {
  if (!holds)
    std::abort();
}

void readProgram(const uint8_t *data, size_t size) {
  // The bytes lie at the start of an aligned buffer of their own, as a file's
  // do.
  std::string bytes(reinterpret_cast<const char *>(data), size);
  Expected<ProgramT> program = parseProgram(bytes.data(), bytes.size());
  if (!program)
    return;
  std::string again = serializeProgram(*program);
  require(parseProgram(again.data(), again.size()).ok());
}

void readManifest(const uint8_t *data, size_t size) {
  Expected<Manifest> manifest =
      parseManifest({reinterpret_cast<const char *>(data), size});
  if (manifest)
    require(parseManifest(toJson(*manifest)).ok());
}

void readConstants(const uint8_t *data, size_t size) {
  int fd = ::memfd_create("fuzz", MFD_CLOEXEC);
  require(::write(fd, data, size) == static_cast<ssize_t>(size));
  Expected<Safetensors> mapped =
      Safetensors::read(std::move(*Mapping::map(fd, "constants")));
  uint8_t sum = 0;
  if (mapped)
    for (const auto &[name, tensor] : mapped->all())
      for (uint64_t i = 0; i < tensor.bytes; ++i)
        sum = static_cast<uint8_t>(
            sum + static_cast<const uint8_t *>(tensor.data)[i]);
  volatile uint8_t used = sum;
  (void)used;
  ::close(fd);
}

/// A program with one of each kind of table.
testing::ProgramMaker everything() {
  using namespace testing;
  ProgramMaker m;
  m.p.slots = 2;
  m.p.sizes_function = "sizes";
  m.p.slot_sources = {SlotSource(0, 0, 0)};
  int x = m.input("x", {slot(0), fixed(4)});
  m.scalar("n", 1);
  int w = m.constant("w", {fixed(4)});
  int a = m.arena(64, {fixed(16)}, 64);
  int y = m.output({fixed(16)}), made = m.external({fixed(4)});
  int packed = m.persistent(0, {fixed(4)}, 64);
  m.initializing = true;
  m.launch("twice", {w}, {packed}, fixed(4));
  m.initializing = false;
  m.launch("increment", {x, packed}, {a}, slot(0));
  m.record(0, 0);
  m.copy(a, y);
  m.wait(0, m.stream(3));
  CallT call;
  call.op = "aten::topk";
  for (int kind = 0; kind < static_cast<int>(ArgKind::Item); ++kind) {
    auto argument = std::make_unique<ArgumentT>();
    argument->kind = static_cast<ArgKind>(kind);
    argument->buffer = a;
    argument->int_value = std::make_unique<Size>(slot(1));
    call.arguments.push_back(std::move(argument));
  }
  ArgumentT &tensor = *call.arguments[static_cast<int>(ArgKind::Tensor)];
  tensor.written = true;
  tensor.view = std::make_unique<ViewT>();
  tensor.view->offset = std::make_unique<Size>(fixed(1));
  tensor.view->shape = tensor.view->strides = {fixed(3)};
  call.results = {made, -1};
  m.push(std::move(call), 1).location = m.location("topk");
  m.otherOutput(OutputKind::External).buffer = made;
  m.otherOutput(OutputKind::Alias).index = 0;
  m.otherOutput(OutputKind::Scalar).scalar = std::make_unique<Size>(slot(1));
  m.otherOutput(OutputKind::None);
  m.p.needs_libtorch = true;
  return m;
}

void writeSeed(const std::string &folder, char kind, const std::string &bytes) {
  std::ofstream(folder + "/seed" + kind, std::ios::binary) << kind << bytes;
}

void writeSeeds(const std::string &folder) {
  writeSeed(folder, '0', serializeProgram(everything().p));
  Manifest manifest;
  manifest.files["program.bin"] = {12, "abc"};
  manifest.extras["model"] = "test";
  manifest.targets.push_back({"v3", "x86-64", {"avx2"}, {"k"}, true});
  manifest.signature.json =
      R"({"inputs": [{"name": "x", "state": false}], "outputs": ["y"]})";
  writeSeed(folder, '1', toJson(manifest));
  std::vector<uint64_t> offsets;
  Constant c{"w", anabranch::DType::F32, {2}, nullptr};
  writeSeed(folder, '2', *safetensorsHeader({c}, offsets) + "12345678");
}

} // namespace

extern "C" int LLVMFuzzerInitialize(int *, char ***) {
  if (const char *folder = std::getenv("ANABRANCH_FUZZ_SEEDS")) {
    writeSeeds(folder);
    std::exit(0);
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (size == 0)
    return 0;
  switch (data[0] % 3) {
  case 0:
    readProgram(data + 1, size - 1);
    break;
  case 1:
    readManifest(data + 1, size - 1);
    break;
  default:
    readConstants(data + 1, size - 1);
    break;
  }
  return 0;
}
