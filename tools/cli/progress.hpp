// A live line about a search: redrawn in place on a terminal, a plain line now and then elsewhere. On
// standard error.
#pragma once
#include <functional>
#include <string>

#include "lathe/executable.hpp"

namespace lathe::cli {

class Progress {
public:
  explicit Progress(std::string title);
  ~Progress(); ///< ends the line, and says so if what was found is not in the database
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  void show(const TuneProgress& progress);
  const TuneProgress& last() const { return last_; }

private:
  void draw();

  std::string title_;
  TuneProgress last_;
  bool terminal_, drawn_ = false;
  double drawn_at_ = -1;
};

} // namespace lathe::cli
