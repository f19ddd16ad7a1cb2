//===- AmxEmulation.h - AMX instructions where there are none ---*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0
//
// Runs machine code that uses AMX registers on a processor without them. Each
// AMX instruction is illegal there, and the handler of that signal emulates it.
// For tests only, and for one thread.

#ifndef ANABRANCH_SUPPORT_CODEGEN_AMXEMULATION_H
#define ANABRANCH_SUPPORT_CODEGEN_AMXEMULATION_H

#include "native/target/Target.h"

#include <cmath>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <ucontext.h>
#include <vector>

namespace anabranch {
namespace kernels {

class AmxEmulation {
public:
  AmxEmulation() {
    struct sigaction action = {};
    action.sa_sigaction = handle;
    action.sa_flags = SA_SIGINFO;
    ::sigaction(SIGILL, &action, &before);
    state() = {};
  }
  AmxEmulation(const AmxEmulation &) = delete;
  AmxEmulation &operator=(const AmxEmulation &) = delete;
  ~AmxEmulation() { ::sigaction(SIGILL, &before, nullptr); }

  /// Whether this processor has everything that the target "amx" needs except
  /// the registers.
  static bool suffices() {
    for (const char *name : {"avx512vnni", "avx512bf16"})
      if (!llvm::cantFail(native::TargetInfo::get(name)).runsHere())
        return false;
    return true;
  }

  /// An emulation for code of a target that this processor cannot run without
  /// one; null for other targets.
  static std::unique_ptr<AmxEmulation> of(const native::TargetInfo &target) {
    bool helps = !target.runsHere() && target.isa().tiles() && suffices();
    return helps ? std::make_unique<AmxEmulation>() : nullptr;
  }

  /// The number of products of two registers so far, and how many of them were
  /// products of bf16.
  static int64_t products() { return state().products; }
  static int64_t pairs() { return state().pairs; }
  /// Whether the registers are configured. Code must release them at its end.
  static bool inUse() { return state().configured; }

  /// One sum: the product of a row and a column of bf16 pairs, added to `sum`.
  static float dotOfPairs(const std::vector<float> &row,
                          const std::vector<float> &column, float sum) {
    float parts[2] = {0, 0};
    for (size_t k = 0; k < row.size(); ++k)
      parts[k % 2] = fma(row[k], column[k], parts[k % 2]);
    return flush(flush(sum) + flush(parts[0] + parts[1]));
  }

private:
  static constexpr int maxRows = 16, maxBytes = 64;

  struct Tile {
    int rows = 0, bytes = 0;
    int8_t data[maxRows][maxBytes];
  };
  struct State {
    bool configured = false;
    int64_t products = 0, pairs = 0;
    Tile tiles[8];
  };
  static State &state() {
    static State instance;
    return instance;
  }

  /// An instruction with three bytes of prefix, taken apart.
  struct Instruction {
    const uint8_t *at;
    const greg_t *registers;

    int mandatory() const { return at[2] & 3; } ///< no prefix, 66, F3 or F2
    int opcode() const { return at[3]; }
    int mode() const { return at[4] >> 6; }
    int reg() const { return at[4] >> 3 & 7; }
    int rm() const { return at[4] & 7; }
    int other() const { return ~at[2] >> 3 & 15; }
    bool hasSib() const { return mode() != 3 && rm() == 4; }
    int length() const {
      int displacement = mode() == 1 ? 1 : mode() == 2 ? 4 : 0;
      return 5 + (hasSib() ? 1 : 0) + displacement;
    }
    int64_t general(int number) const {
      static const int order[] = {REG_RAX, REG_RCX, REG_RDX, REG_RBX,
                                  REG_RSP, REG_RBP, REG_RSI, REG_RDI,
                                  REG_R8,  REG_R9,  REG_R10, REG_R11,
                                  REG_R12, REG_R13, REG_R14, REG_R15};
      return registers[order[number]];
    }
    /// The address: base and displacement.
    char *address() const {
      int base = (hasSib() ? at[5] & 7 : rm()) | (at[1] & 0x20 ? 0 : 8);
      // Our kernels use neither absolute nor instruction-relative addresses.
      if (mode() == 0 && (base & 7) == 5)
        std::abort();
      const uint8_t *end = at + 5 + (hasSib() ? 1 : 0);
      int32_t displacement = 0;
      if (mode() == 1)
        displacement = (*end ^ 0x80) - 0x80; // extends the sign of 8 bits
      else if (mode() == 2)
        std::memcpy(&displacement, end, 4);
      // NOLINTNEXTLINE(performance-no-int-to-ptr): a register holds an integer.
      return reinterpret_cast<char *>(general(base)) + displacement;
    }
    /// The distance from row to row, which the scaled index holds.
    int64_t stride() const {
      int index = (at[5] >> 3 & 7) | (at[1] & 0x40 ? 0 : 8);
      return index == 4 ? 0 : general(index) << (at[5] >> 6);
    }
  };

  static void configure(const char *sizes) {
    if (sizes[0] != 1)
      std::abort();
    for (int i = 0; i < 8; ++i) {
      Tile &tile = state().tiles[i];
      uint16_t bytes;
      std::memcpy(&bytes, sizes + 16 + 2 * i, 2);
      tile.bytes = bytes;
      tile.rows = static_cast<uint8_t>(sizes[48 + i]);
      // A processor refuses registers with only one size of zero.
      bool isUnused = tile.rows == 0 && bytes == 0;
      if (!isUnused && (tile.rows < 1 || tile.rows > maxRows || bytes < 4 ||
                        bytes > maxBytes || bytes % 4 != 0))
        std::abort();
      std::memset(tile.data, 0, sizeof tile.data);
    }
    state().configured = true;
  }

  static void checkSizes(const Tile &sums, const Tile &left,
                         const Tile &right) {
    if (sums.rows == 0 || sums.rows != left.rows ||
        left.bytes != 4 * right.rows || right.bytes != sums.bytes)
      std::abort();
  }

  template <typename LeftT, typename RightT>
  static void multiplyBytes(Tile &sums, const Tile &left, const Tile &right) {
    checkSizes(sums, left, right);
    for (int i = 0; i < sums.rows; ++i)
      for (int j = 0; j < sums.bytes / 4; ++j) {
        int32_t sum;
        std::memcpy(&sum, &sums.data[i][4 * j], 4);
        for (int k = 0; k < left.bytes; ++k)
          sum += int32_t(LeftT(left.data[i][k])) *
                 RightT(right.data[k / 4][4 * j + k % 4]);
        std::memcpy(&sums.data[i][4 * j], &sum, 4);
      }
    ++state().products;
  }

  /// AMX takes denormals for zeros, before and after each operation.
  static float flush(float value) {
    return std::fpclassify(value) == FP_SUBNORMAL ? std::copysign(0.0F, value)
                                                  : value;
  }
  /// a * b + c with one rounding, to nearest, which is the mode of the test's
  /// process.
  static float fma(float a, float b, float c) {
    return flush(std::fma(flush(a), flush(b), flush(c)));
  }
  static float bf16At(const Tile &tile, int row, int number) {
    uint16_t half;
    std::memcpy(&half, &tile.data[row][2 * number], 2);
    uint32_t bits = uint32_t(half) << 16;
    float value;
    std::memcpy(&value, &bits, 4);
    return value;
  }

  /// Adds the products of even and of odd elements, each in the order of the
  /// depth. Then adds the two sums, and the result to `sums`.
  static void multiplyPairs(Tile &sums, const Tile &left, const Tile &right) {
    checkSizes(sums, left, right);
    std::vector<float> row(left.bytes / 2), column(left.bytes / 2);
    for (int i = 0; i < sums.rows; ++i)
      for (int j = 0; j < sums.bytes / 4; ++j) {
        for (int k = 0; k < left.bytes / 2; ++k) {
          row[k] = bf16At(left, i, k);
          column[k] = bf16At(right, k / 2, 2 * j + k % 2);
        }
        float sum;
        std::memcpy(&sum, &sums.data[i][4 * j], 4);
        sum = dotOfPairs(row, column, sum);
        std::memcpy(&sums.data[i][4 * j], &sum, 4);
      }
    ++state().products;
    ++state().pairs;
  }

  static bool run(const Instruction &instruction) {
    State &all = state();
    Tile &tile = all.tiles[instruction.reg()];
    bool memory = instruction.mode() != 3;
    constexpr int none = 0, x66 = 1, f3 = 2, f2 = 3;
    int prefix = instruction.mandatory();
    switch (instruction.opcode()) {
    case 0x49:
      if (prefix == none && memory)
        configure(instruction.address());
      else if (prefix == none)
        all.configured = false;
      else if (prefix == f2)
        std::memset(tile.data, 0, sizeof tile.data);
      else
        return false;
      return true;
    case 0x4b:
      if (!all.configured || !instruction.hasSib() || tile.rows == 0)
        return false;
      for (int row = 0; row < tile.rows; ++row) {
        char *at = instruction.address() + row * instruction.stride();
        if (prefix == f2 ||
            prefix == x66) // without or with a hint for the caches
          std::memcpy(tile.data[row], at, tile.bytes);
        else if (prefix == f3)
          std::memcpy(at, tile.data[row], tile.bytes);
      }
      return prefix != none;
    case 0x5e:
      if (!all.configured || prefix == none)
        return false;
      (prefix == f2 ? multiplyBytes<int8_t, int8_t>
       : prefix == f3
           ? multiplyBytes<int8_t, uint8_t>
           : multiplyBytes<uint8_t, int8_t>)(tile, all.tiles[instruction.rm()],
                                             all.tiles[instruction.other()]);
      return true;
    case 0x5c:
      if (!all.configured || prefix != f3)
        return false;
      multiplyPairs(tile, all.tiles[instruction.rm()],
                    all.tiles[instruction.other()]);
      return true;
    default:
      return false;
    }
  }

  static void handle(int, siginfo_t *, void *context) {
    auto *machine = static_cast<ucontext_t *>(context);
    greg_t *registers = machine->uc_mcontext.gregs;
    // NOLINTNEXTLINE(performance-no-int-to-ptr): a register holds an integer.
    auto *at = reinterpret_cast<uint8_t *>(registers[REG_RIP]);
    Instruction instruction{at, registers};
    bool isVex = instruction.at[0] == 0xc4 && (instruction.at[1] & 0x1f) == 2;
    if (!isVex || !run(instruction))
      std::abort();
    registers[REG_RIP] += instruction.length();
  }

  struct sigaction before;
};

} // namespace kernels
} // namespace anabranch

#endif // ANABRANCH_SUPPORT_CODEGEN_AMXEMULATION_H
