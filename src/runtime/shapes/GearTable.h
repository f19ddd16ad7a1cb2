//===- GearTable.h - which program fits the sizes of a call -----*- C++ -*-===//
// SPDX-License-Identifier: Apache-2.0

#ifndef ANABRANCH_RUNTIME_SHAPES_GEARTABLE_H
#define ANABRANCH_RUNTIME_SHAPES_GEARTABLE_H

#include "runtime/load/LoadedProgram.h"

namespace anabranch::runtime {

using Programs = std::vector<std::shared_ptr<const LoadedProgram>>;

/// Whether the two differ, for a caller, in their sizes only.
bool answersLike(const Plan &a, const Plan &b);

/// Programs of one graph for different sizes. Immutable. Any thread.
class GearTable {
public:
  explicit GearTable(Programs programs);

  const Programs &programs() const { return all; }

  /// The program for these arguments; null if there is none. Arguments of a
  /// wrong kind or number go to the first program, which reports them.
  const LoadedProgram *find(const InputValue *inputs, size_t count) const;

  /// The program with the smallest sizes that are nowhere smaller than those of
  /// the arguments.
  const LoadedProgram *findLarger(const InputValue *inputs, size_t count) const;

  /// Whether the program for these arguments was made for these sizes only.
  /// False if all programs have equal sizes, as one program has.
  bool isExact(const InputValue *inputs, size_t count) const;

  /// An error that names the sizes of the arguments, and the sizes of the
  /// programs.
  Status noProgram(const InputValue *inputs) const;

private:
  /// A size in which programs differ: a dimension of an input, or a scalar
  /// (`dim` is -1).
  struct Place {
    size_t input;
    int dim;
  };
  /// A hash table from the sizes at some places to the program for them.
  struct SizeIndex {
    std::vector<Place> places;
    std::vector<int64_t> keys; ///< the sizes of each entry of `numbers`
    std::vector<int> numbers;  ///< of programs; -1: free
    int find(const int64_t *sizes) const;
    void insert(const int64_t *sizes, int number);
    void allocate(size_t members);
  };
  static constexpr size_t mostPlaces = 64;

  void findPlaces();
  bool fit(const InputValue *inputs, size_t count) const;
  std::pair<const SizeIndex *, int> lookUp(const InputValue *inputs) const;
  std::string sizesOf(const LoadedProgram &program) const;

  Programs all;
  std::vector<Place> places;      ///< of all indices
  std::vector<SizeIndex> indices; ///< those with most places first
};

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_SHAPES_GEARTABLE_H
