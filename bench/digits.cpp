#include "digits.hpp"

#include <zlib.h>

#include <charconv>

namespace lathe::bench {

namespace {
std::string path = LATHE_DIGITS_PATH;

std::string read_gzip(const std::string& file) {
  gzFile in = gzopen(file.c_str(), "rb");
  if (!in) throw Error(ErrorKind::File, file + ": can't be opened, expected the gzipped digits");
  std::string text;
  char block[65536];
  int got;
  while ((got = gzread(in, block, sizeof block)) > 0) text.append(block, static_cast<size_t>(got));
  gzclose(in);
  if (got < 0) throw Error(ErrorKind::File, file + ": is damaged, expected a gzip file");
  return text;
}

Digits parse(const std::string& text) {
  Digits digits;
  const char *at = text.data(), *end = at + text.size();
  while (at < end) {
    for (int column = 0; column < 65; ++column) {
      int value = -1;
      auto [stop, error] = std::from_chars(at, end, value);
      char separator = column < 64 ? ',' : '\n';
      bool ended = stop == end && column == 64;
      if (error != std::errc() || value < 0 || value > 16 || !(ended || (stop < end && *stop == separator)))
        throw Error(ErrorKind::File, path + ": row " + std::to_string(digits.rows() + 1) +
                                         " is malformed, expected 64 pixels of 0..16 and a class");
      at = ended ? end : stop + 1;
      if (column < 64)
        digits.pixels.push_back(static_cast<float>(value));
      else
        digits.labels.push_back(value);
    }
  }
  return digits;
}
} // namespace

void set_digits_path(const std::string& file) { path = file; }

const Digits& digits() {
  static const Digits loaded = parse(read_gzip(path));
  return loaded;
}

} // namespace lathe::bench
