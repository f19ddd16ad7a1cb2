//===- Npy.cpp - NumPy's file format, as much as a tool needs -------------===//
// SPDX-License-Identifier: Apache-2.0

#include "Npy.h"

#include <cstdio>
#include <cstring>
#include <fstream>
#include <iterator>

namespace anabranch::tools {

namespace {

struct Name {
  const char *text;
  DType dtype;
};

constexpr Name names[] = {
    {"|b1", DType::Bool}, {"|u1", DType::U8},   {"|i1", DType::I8},
    {"<i2", DType::I16},  {"<i4", DType::I32},  {"<i8", DType::I64},
    {"<f2", DType::F16},  {"<f4", DType::F32},  {"<f8", DType::F64},
    {"<u2", DType::U16},  {"<u4", DType::U32},  {"<u8", DType::U64},
    {"<c8", DType::C64},  {"<c16", DType::C128}};

Status malformed(const std::string &path, const std::string &why) {
  return Status(StatusCode::InvalidArgument, path + ": " + why);
}

/// Parses the header, a Python literal such as {'descr': '<f4',
/// 'fortran_order': False, 'shape': (3, 4), }.
class HeaderParser {
public:
  explicit HeaderParser(const std::string &text) : text(text) {}

  bool parse(std::string &descr, bool &fortran, std::vector<int64_t> &shape) {
    bool seen[3] = {};
    if (!take('{'))
      return false;
    while (!take('}')) {
      std::string key;
      if (!string(key) || !take(':'))
        return false;
      bool ok = key == "descr"           ? string(descr)
                : key == "fortran_order" ? boolean(fortran)
                : key == "shape"         ? tuple(shape)
                                         : false;
      if (!ok)
        return false;
      seen[key == "descr" ? 0 : key == "fortran_order" ? 1 : 2] = true;
      take(',');
    }
    skipSpace();
    return at == text.size() && seen[0] && seen[1] && seen[2];
  }

private:
  void skipSpace() {
    while (at < text.size() && std::strchr(" \n\t", text[at]) && text[at])
      ++at;
  }
  bool take(char c) {
    skipSpace();
    if (at >= text.size() || text[at] != c)
      return false;
    ++at;
    return true;
  }
  bool string(std::string &value) {
    if (!take('\''))
      return false;
    size_t end = text.find('\'', at);
    if (end == std::string::npos)
      return false;
    value = text.substr(at, end - at);
    at = end + 1;
    return true;
  }
  bool boolean(bool &value) {
    skipSpace();
    for (bool candidate : {false, true}) {
      std::string word = candidate ? "True" : "False";
      if (text.compare(at, word.size(), word) == 0) {
        value = candidate;
        at += word.size();
        return true;
      }
    }
    return false;
  }
  bool number(int64_t &value) {
    skipSpace();
    value = 0;
    size_t first = at;
    for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at)
      if (__builtin_mul_overflow(value, 10, &value) ||
          __builtin_add_overflow(value, text[at] - '0', &value))
        return false;
    return at > first;
  }
  bool tuple(std::vector<int64_t> &shape) {
    if (!take('('))
      return false;
    while (!take(')')) {
      int64_t value;
      if (!number(value))
        return false;
      shape.push_back(value);
      if (!take(',')) {
        skipSpace();
        if (at >= text.size() || text[at] != ')')
          return false;
      }
    }
    return true;
  }

  const std::string &text;
  size_t at = 0;
};

bool findDType(const std::string &descr, DType expected, DType &dtype) {
  for (const Name &name : names)
    if (descr == name.text) {
      dtype = name.dtype;
      return true;
    }
  dtype = expected;
  return (descr == "<V2" || descr == "|V2" || descr == "|V1") &&
         descr.back() == char('0' + itemSize(expected));
}

} // namespace

int64_t Array::count() const {
  int64_t count = 1;
  for (int64_t size : shape)
    count *= size;
  return count;
}

Expected<Array> readNpy(const std::string &path, DType expected) {
  std::ifstream file(path, std::ios::binary);
  if (!file)
    return Status(StatusCode::IoError, "cannot open " + path);
  std::vector<char> all((std::istreambuf_iterator<char>(file)),
                        std::istreambuf_iterator<char>());
  if (all.size() < 12 || std::memcmp(all.data(), "\x93NUMPY", 6) != 0)
    return malformed(path, "not a .npy file");
  int version = static_cast<unsigned char>(all[6]);
  uint32_t length = 0;
  size_t lengthBytes = version == 1 ? 2 : 4;
  if (version < 1 || version > 3)
    return malformed(path, "an unknown version of the .npy format");
  std::memcpy(&length, all.data() + 8, lengthBytes);
  size_t begin = 8 + lengthBytes;
  if (length > all.size() - begin)
    return malformed(path, "truncated header");
  std::string header(all.data() + begin, length);
  std::string descr;
  bool fortran = false;
  Array array;
  if (!HeaderParser(header).parse(descr, fortran, array.shape))
    return malformed(path, "malformed header");
  if (fortran && array.shape.size() > 1)
    return malformed(path, "Fortran order; save it with ascontiguousarray");
  if (!findDType(descr, expected, array.dtype))
    return malformed(path, "dtype " + descr + " is not supported");
  auto bytes = static_cast<int64_t>(itemSize(array.dtype));
  for (int64_t size : array.shape)
    if (__builtin_mul_overflow(bytes, size, &bytes))
      return malformed(path, "impossible shape");
  if (static_cast<uint64_t>(bytes) != all.size() - begin - length)
    return malformed(path, "the data does not fit the shape");
  array.bytes.assign(all.end() - bytes, all.end());
  return array;
}

Status writeNpy(const std::string &path, const Array &array) {
  std::string descr = itemSize(array.dtype) == 1 ? "|V1" : "<V2";
  if (array.dtype == DType::C32)
    descr = "<V4";
  for (const Name &name : names)
    if (name.dtype == array.dtype)
      descr = name.text;
  std::string header =
      "{'descr': '" + descr + "', 'fortran_order': False, 'shape': (";
  for (int64_t size : array.shape)
    header += std::to_string(size) + ", ";
  if (array.shape.size() > 1)
    header.resize(header.size() - 2);
  header += "), }";
  header.append(63 - (10 + header.size()) % 64, ' ');
  header += '\n';
  std::ofstream file(path, std::ios::binary);
  auto length = static_cast<uint16_t>(header.size());
  file.write("\x93NUMPY\x01\x00", 8);
  file.write(reinterpret_cast<const char *>(&length), 2);
  file.write(header.data(), static_cast<std::streamsize>(header.size()));
  file.write(array.bytes.data(),
             static_cast<std::streamsize>(array.bytes.size()));
  return file.flush() ? Status()
                      : Status(StatusCode::IoError, "cannot write " + path);
}

} // namespace anabranch::tools
