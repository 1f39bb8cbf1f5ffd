//! The nearest right word, for help texts.

/// The candidate that differs least from `word`, if it is near enough to be what was meant: at most a third of its letters.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    // A word longer than any right one can be is not compared: the time grows with the product of both lengths.
    if word.chars().count() > 64 {
        return None;
    }
    let word = word.to_lowercase();
    candidates
        .into_iter()
        .map(|candidate| (distance(&word, &candidate.to_lowercase()), candidate))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, candidate)| *distance <= (candidate.chars().count() / 3).max(1))
        .map(|(_, candidate)| candidate)
}

/// A help text: the nearest right word if one is near, and all of them if they are few.
pub fn known(word: &str, candidates: &[&str]) -> String {
    let near = nearest(word, candidates.iter().copied());
    match near {
        Some(near) if candidates.len() > 12 => format!("did you mean '{near}'?"),
        Some(near) => format!("did you mean '{near}'? (known: {})", candidates.join(", ")),
        None if candidates.is_empty() => "nothing may stand here".to_owned(),
        None => format!("known: {}", candidates.join(", ")),
    }
}

/// How many letters must be put in, taken out, replaced or swapped with their neighbour to make one word the other.
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut above: Vec<usize> = Vec::new();
    let mut last: Vec<usize> = (0..=b.len()).collect();
    let mut before = None;
    for (row, letter) in a.chars().enumerate() {
        let mut next = Vec::with_capacity(last.len());
        next.push(row + 1);
        for (column, other) in b.iter().enumerate() {
            let replaced = last[column] + usize::from(letter != *other);
            let mut least = replaced.min(last[column + 1] + 1).min(next[column] + 1);
            if column > 0 && before == Some(*other) && letter == b[column - 1] {
                least = least.min(above[column - 1] + 1);
            }
            next.push(least);
        }
        above = std::mem::replace(&mut last, next);
        before = Some(letter);
    }
    last.last().copied().unwrap_or_default()
}
