//===- GearTable.cpp - which program fits the sizes of a call -------------===//
// SPDX-License-Identifier: Apache-2.0

#include "runtime/shapes/GearTable.h"

#include "runtime/device/Describe.h"

#include <algorithm>
#include <map>

namespace anabranch::runtime {

bool answersLike(const Plan &a, const Plan &b) {
  if (a.inputs.size() != b.inputs.size() ||
      a.outputs.size() != b.outputs.size())
    return false;
  for (size_t i = 0; i < a.inputs.size(); ++i) {
    const InputPlan &x = a.inputs[i], &y = b.inputs[i];
    if (x.isScalar != y.isScalar || x.dtype != y.dtype ||
        x.mutated != y.mutated || x.shape.size() != y.shape.size())
      return false;
  }
  return true;
}

/// The size that a program requires at a place; -1: any.
static int64_t wanted(const Plan &plan, size_t input, int dim) {
  const InputPlan &i = plan.inputs[input];
  if (dim >= 0)
    return i.shape[dim].slot() < 0 ? i.shape[dim].value() : -1;
  for (const package::SlotLimit &limit : plan.slotLimits)
    if (limit.slot() == i.scalarSlot && limit.min() == limit.max())
      return limit.min() < 0 ? -1 : limit.min();
  return -1;
}

static int64_t sizeAt(const InputValue &value, int dim) {
  return dim < 0 ? value.scalar : value.tensor.shape[dim];
}

GearTable::GearTable(Programs programs) : all(std::move(programs)) {
  findPlaces();
  // Programs by the set of places that they fix. A map brings equal sets
  // together.
  std::map<std::vector<bool>, std::vector<int>> members;
  for (size_t p = 0; p < all.size(); ++p) {
    std::vector<bool> fixed;
    for (const Place &place : places)
      fixed.push_back(wanted(all[p]->getPlan(), place.input, place.dim) >= 0);
    members[fixed].push_back(static_cast<int>(p));
  }
  for (const auto &[fixed, numbers] : members) {
    SizeIndex index;
    for (size_t i = 0; i < places.size(); ++i)
      if (fixed[i])
        index.places.push_back(places[i]);
    index.allocate(numbers.size());
    for (int number : numbers) {
      std::vector<int64_t> sizes;
      for (const Place &place : index.places)
        sizes.push_back(wanted(all[number]->getPlan(), place.input, place.dim));
      index.insert(sizes.data(), number);
    }
    indices.push_back(std::move(index));
  }
  std::sort(indices.begin(), indices.end(),
            [](const SizeIndex &a, const SizeIndex &b) {
              return a.places.size() > b.places.size();
            });
}

void GearTable::findPlaces() {
  const Plan &first = all.front()->getPlan();
  std::vector<std::vector<int64_t>>
      columns; ///< the programs' sizes at each place
  auto consider = [&](size_t input, int dim) {
    std::vector<int64_t> column;
    for (const auto &program : all)
      column.push_back(wanted(program->getPlan(), input, dim));
    if (std::equal(column.begin() + 1, column.end(), column.begin()))
      return;
    places.push_back({input, dim});
    columns.push_back(std::move(column));
  };
  for (size_t i = 0; i < first.inputs.size(); ++i) {
    if (first.inputs[i].isScalar)
      consider(i, -1);
    for (size_t d = 0; d < first.inputs[i].shape.size(); ++d)
      consider(i, static_cast<int>(d));
  }
  // A place whose sizes tell the programs apart as those of an earlier place do
  // is needed only for clear errors. If there are too many places, the
  // programs' own checks find such an error.
  for (size_t i = places.size(); places.size() > mostPlaces && i-- > 0;)
    if (std::find(columns.begin(), columns.begin() + i, columns[i]) !=
        columns.begin() + i) {
      places.erase(places.begin() + i);
      columns.erase(columns.begin() + i);
    }
  places.resize(std::min(places.size(), mostPlaces), {0, 0});
}

//===----------------------------------------------------------------------===//
// Size indices
//===----------------------------------------------------------------------===//

static uint64_t hashOf(const int64_t *sizes, size_t count) {
  uint64_t hash = 0;
  for (size_t i = 0; i < count; ++i)
    hash = (hash ^ static_cast<uint64_t>(sizes[i])) * 0x9E3779B97F4A7C15u;
  return hash ^ (hash >> 32);
}

/// At least half of the entries stay free, so every search ends.
void GearTable::SizeIndex::allocate(size_t members) {
  size_t entries = 2;
  while (entries < 2 * members)
    entries *= 2;
  numbers.assign(entries, -1);
  keys.assign(entries * places.size(), 0);
}

int GearTable::SizeIndex::find(const int64_t *sizes) const {
  size_t width = places.size(), mask = numbers.size() - 1;
  for (size_t at = hashOf(sizes, width) & mask; numbers[at] >= 0;
       at = (at + 1) & mask)
    if (std::equal(sizes, sizes + width, keys.data() + at * width))
      return numbers[at];
  return -1;
}

/// If two programs have the same sizes, the first one stays.
void GearTable::SizeIndex::insert(const int64_t *sizes, int number) {
  size_t width = places.size(), mask = numbers.size() - 1;
  size_t at = hashOf(sizes, width) & mask;
  for (; numbers[at] >= 0; at = (at + 1) & mask)
    if (std::equal(sizes, sizes + width, keys.data() + at * width))
      return;
  numbers[at] = number;
  std::copy(sizes, sizes + width, keys.data() + at * width);
}

//===----------------------------------------------------------------------===//
// Calls
//===----------------------------------------------------------------------===//

/// Whether the arguments have sizes at all places.
bool GearTable::fit(const InputValue *inputs, size_t count) const {
  const Plan &plan = all.front()->getPlan();
  if (count != plan.inputs.size())
    return false;
  for (const Place &place : places) {
    const InputValue &value = inputs[place.input];
    bool isScalar = value.kind == InputValue::Kind::Scalar;
    if (isScalar != (place.dim < 0) ||
        (!isScalar && value.tensor.rank <= place.dim))
      return false;
  }
  return true;
}

std::pair<const GearTable::SizeIndex *, int>
GearTable::lookUp(const InputValue *inputs) const {
  int64_t sizes[mostPlaces];
  for (const SizeIndex &index : indices) {
    for (size_t i = 0; i < index.places.size(); ++i)
      sizes[i] = sizeAt(inputs[index.places[i].input], index.places[i].dim);
    if (int number = index.find(sizes); number >= 0)
      return {&index, number};
  }
  return {nullptr, -1};
}

const LoadedProgram *GearTable::find(const InputValue *inputs,
                                     size_t count) const {
  static std::atomic<uint64_t> clock{0};
  if (!fit(inputs, count))
    return all.front().get();
  auto [index, number] = lookUp(inputs);
  if (!index)
    return nullptr;
  const LoadedProgram *program = all[number].get();
  program->lastUse.store(clock.fetch_add(1, std::memory_order_relaxed) + 1,
                         std::memory_order_relaxed);
  return program;
}

bool GearTable::isExact(const InputValue *inputs, size_t count) const {
  if (!fit(inputs, count))
    return false;
  auto [index, number] = lookUp(inputs);
  return index && !places.empty() && index->places.size() == places.size();
}

const LoadedProgram *GearTable::findLarger(const InputValue *inputs,
                                           size_t count) const {
  const LoadedProgram *best = nullptr;
  double least = 0;
  if (!fit(inputs, count))
    return nullptr;
  for (const auto &program : all) {
    double volume = 1;
    for (const Place &place : places) {
      int64_t size = wanted(program->getPlan(), place.input, place.dim);
      int64_t actual = sizeAt(inputs[place.input], place.dim);
      volume *= actual < 0 || size < actual ? -1 : double(size + 1);
      if (volume < 0)
        break;
    }
    if (volume < 0 || (best && volume >= least))
      continue;
    best = program.get();
    least = volume;
  }
  return best;
}

std::string GearTable::sizesOf(const LoadedProgram &program) const {
  std::vector<int64_t> sizes;
  for (const Place &place : places)
    sizes.push_back(wanted(program.getPlan(), place.input, place.dim));
  return describe(sizes.data(), sizes.size());
}

Status GearTable::noProgram(const InputValue *inputs) const {
  std::vector<int64_t> sizes;
  std::string names;
  for (const Place &place : places) {
    const InputPlan &input = all.front()->getPlan().inputs[place.input];
    sizes.push_back(sizeAt(inputs[place.input], place.dim));
    names += (names.empty() ? "" : ", ") + input.name;
    if (place.dim >= 0)
      names += "[" + std::to_string(place.dim) + "]";
  }
  std::string text = "no program was compiled for the sizes " +
                     describe(sizes.data(), sizes.size()) + " of " + names +
                     "; there are programs for ";
  for (size_t i = 0; i < all.size(); ++i)
    text += (i ? ", " : "") + sizesOf(*all[i]);
  return Status(StatusCode::Unsupported, std::move(text));
}

} // namespace anabranch::runtime
