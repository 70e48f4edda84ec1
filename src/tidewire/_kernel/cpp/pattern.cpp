#include "pattern.hpp"

#include <algorithm>
#include <cstring>

namespace tidewire {

namespace {

constexpr u32 kAny = 0xFFFFFFFF;
constexpr std::size_t kSearchedMax = 64, kPatternMax = 4 * 2048;

u32 next_character(const char*& at) {
  const auto* p = reinterpret_cast<const u8*>(at);
  if (p[0] < 0x80) {
    at += 1;
    return p[0];
  }
  if (p[0] < 0xE0) {
    at += 2;
    return (p[0] & 0x1Fu) << 6 | (p[1] & 0x3Fu);
  }
  if (p[0] < 0xF0) {
    at += 3;
    return (p[0] & 0x0Fu) << 12 | (p[1] & 0x3Fu) << 6 | (p[2] & 0x3Fu);
  }
  at += 4;
  return (p[0] & 0x07u) << 18 | (p[1] & 0x3Fu) << 12 | (p[2] & 0x3Fu) << 6 | (p[3] & 0x3Fu);
}

struct Piece {
  std::vector<u32> characters;
  std::string literal;
  bool wild = false;
  bool empty() const { return characters.empty(); }
};

// Splits at the '%'; false if an escape stands before something that needs none.
bool split(std::string_view text, std::vector<Piece>& pieces, bool& open_start, bool& open_end) {
  Piece piece;
  bool gap = false, first = true;
  open_start = open_end = false;
  const char *at = text.data(), *end = at + text.size();
  while (at < end) {
    if (*at == '%') {
      ++at;
      if (piece.empty()) {
        if (first) open_start = true;
      } else {
        pieces.push_back(std::move(piece));
        piece = Piece();
      }
      first = false;
      gap = true;
      continue;
    }
    first = gap = false;
    const char* start = at;
    if (*at == '_') {
      ++at;
      piece.characters.push_back(kAny);
      piece.wild = true;
      continue;
    }
    if (*at == '\\') {
      start = ++at;
      if (at == end || (*at != '%' && *at != '_' && *at != '\\')) return false;
    }
    piece.characters.push_back(next_character(at));
    piece.literal.append(start, at);
  }
  if (!piece.empty()) pieces.push_back(std::move(piece));
  open_end = gap;
  return true;
}

bool stands_at(const Pattern::Run& run, const char* at, const char* end) {
  for (const u32 wanted : run.characters) {
    if (at == end) return false;
    const u32 found = next_character(at);
    if (wanted != kAny && wanted != found) return false;
  }
  return true;
}

// Where the last `count` characters begin; nullptr if there are fewer.
const char* from_end(const char* start, const char* end, std::size_t count) {
  while (count > 0) {
    if (end == start) return nullptr;
    do --end;
    while ((static_cast<u8>(*end) & 0xC0) == 0x80);
    --count;
  }
  return end;
}

bool take_start(const Pattern::Run& run, const char*& start, const char* end) {
  if (run.characters.empty()) {
    if (static_cast<std::size_t>(end - start) < run.literal.size()) return false;
    if (std::memcmp(start, run.literal.data(), run.literal.size()) != 0) return false;
    start += run.literal.size();
    return true;
  }
  if (!stands_at(run, start, end)) return false;
  for (std::size_t i = 0; i < run.characters.size(); ++i) next_character(start);
  return true;
}

bool take_end(const Pattern::Run& run, const char* start, const char*& end) {
  if (run.characters.empty()) {
    if (static_cast<std::size_t>(end - start) < run.literal.size()) return false;
    end -= run.literal.size();
    return std::memcmp(end, run.literal.data(), run.literal.size()) == 0;
  }
  const char* at = from_end(start, end, run.characters.size());
  if (at == nullptr || !stands_at(run, at, end)) return false;
  end = at;
  return true;
}

// Shift-And: one step of a machine word per character.
bool take_wild(const Pattern::Run& run, const char*& start, const char* end) {
  u64 state = 0;
  const u64 done = 1ULL << (run.characters.size() - 1);
  while (start < end) {
    const u32 found = next_character(start);
    const auto mask = std::lower_bound(run.masks.begin(), run.masks.end(), std::pair<u32, u64>(found, 0));
    const u64 fits = run.any_mask | (mask != run.masks.end() && mask->first == found ? mask->second : 0);
    state = (state << 1 | 1) & fits;
    if (state & done) return true;
  }
  return false;
}

bool take_next(const Pattern::Run& run, const char*& start, const char* end) {
  if (!run.characters.empty()) return take_wild(run, start, end);
  const void* found =
      memmem(start, static_cast<std::size_t>(end - start), run.literal.data(), run.literal.size());
  if (found == nullptr) return false;
  start = static_cast<const char*>(found) + run.literal.size();
  return true;
}

void prepare_search(Pattern::Run& run) {
  for (std::size_t i = 0; i < run.characters.size(); ++i) {
    const u64 bit = 1ULL << i;
    if (run.characters[i] == kAny) {
      run.any_mask |= bit;
      continue;
    }
    auto place = std::find_if(run.masks.begin(), run.masks.end(),
                              [&](const auto& mask) { return mask.first == run.characters[i]; });
    if (place == run.masks.end()) run.masks.emplace_back(run.characters[i], bit);
    else place->second |= bit;
  }
  std::sort(run.masks.begin(), run.masks.end());
}

}  // namespace

bool Pattern::is_acceptable(std::string_view canonical) {
  if (canonical.size() > kPatternMax) return false;
  std::vector<Piece> pieces;
  bool open_start = false, open_end = false;
  if (!split(canonical, pieces, open_start, open_end)) return false;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const bool searched = (i > 0 || open_start) && (i + 1 < pieces.size() || open_end);
    if (searched && pieces[i].wild && pieces[i].characters.size() > kSearchedMax) return false;
  }
  return true;
}

Pattern::Pattern(std::string_view canonical) {
  std::vector<Piece> pieces;
  split(canonical, pieces, form_.open_start, form_.open_end);
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    Run run;
    if (pieces[i].wild) run.characters = std::move(pieces[i].characters);
    else run.literal = std::move(pieces[i].literal);
    const bool searched = (i > 0 || form_.open_start) && (i + 1 < pieces.size() || form_.open_end);
    if (searched && pieces[i].wild) prepare_search(run);
    form_.runs.push_back(std::move(run));
  }
}

bool Pattern::matches(std::string_view text) const {
  const char *start = text.data(), *end = start + text.size();
  const std::vector<Run>& runs = form_.runs;
  if (runs.empty()) return form_.open_start || text.empty();
  if (runs.size() == 1 && !form_.open_start && !form_.open_end) return take_start(runs[0], start, end) && start == end;
  std::size_t first = 0, last = runs.size();
  if (!form_.open_start && !take_start(runs[first++], start, end)) return false;
  if (!form_.open_end && !take_end(runs[--last], start, end)) return false;
  for (std::size_t i = first; i < last; ++i)
    if (!take_next(runs[i], start, end)) return false;
  return true;
}

std::size_t Pattern::bytes() const {
  std::size_t total = form_.runs.capacity() * sizeof(Run);
  for (const Run& run : form_.runs)
    total += run.literal.capacity() + run.characters.capacity() * sizeof(u32) + run.masks.capacity() * sizeof(run.masks[0]);
  return total;
}

}  // namespace tidewire
