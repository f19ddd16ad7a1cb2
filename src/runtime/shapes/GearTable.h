//===- GearTable.h - which program fits the sizes of a call -----*- C++ -*-===//
//
// Part of the Anabranch project, under the Apache License v2.0.
// See LICENSE for license information.
//
//===----------------------------------------------------------------------===//

#ifndef ANABRANCH_RUNTIME_SHAPES_GEARTABLE_H
#define ANABRANCH_RUNTIME_SHAPES_GEARTABLE_H

#include "runtime/load/LoadedProgram.h"

namespace anabranch::runtime {

using Programs = std::vector<std::shared_ptr<const LoadedProgram>>;

/// Whether a caller can't tell the two apart but by sizes.
bool answersLike(const Plan &a, const Plan &b);

/// Programs of one graph for different sizes. Immutable; any thread.
class GearTable {
public:
  explicit GearTable(Programs programs);

  const Programs &programs() const { return all; }

  /// The program for these arguments; null when there is none. Arguments of a
  /// wrong kind or number go to the first program, which says so.
  const LoadedProgram *find(const InputValue *inputs, size_t count) const;

  /// The program of the least sizes that are as large as these everywhere.
  const LoadedProgram *findLarger(const InputValue *inputs, size_t count) const;

  /// Whether that program was made for these sizes only.
  bool isExact(const InputValue *inputs, size_t count) const;

  /// Names the sizes and those that there are programs for.
  Status noProgram(const InputValue *inputs) const;

private:
  /// A size in which programs differ: of a dimension, or a scalar (-1).
  struct Place {
    size_t input;
    int dim;
  };
  /// Programs that fix the same places, by the sizes there.
  struct Group {
    std::vector<Place> places;
    std::vector<int64_t> keys; ///< a row for each entry of `numbers`
    std::vector<int> numbers;  ///< of programs; -1: free
    int find(const int64_t *sizes) const;
    void insert(const int64_t *sizes, int number);
    void allocate(size_t members);
  };
  static constexpr size_t mostPlaces = 64;

  void findPlaces();
  bool fit(const InputValue *inputs, size_t count) const;
  std::pair<const Group *, int> lookUp(const InputValue *inputs) const;
  std::string sizesOf(const LoadedProgram &program) const;

  Programs all;
  std::vector<Place> places; ///< of all groups
  std::vector<Group> groups; ///< those with most places first
};

} // namespace anabranch::runtime

#endif // ANABRANCH_RUNTIME_SHAPES_GEARTABLE_H
