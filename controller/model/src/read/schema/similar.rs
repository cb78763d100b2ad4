//! The word that somebody probably meant.

/// The most similar of the known words, if it is near enough: no more than a third of the letters differ.
pub(in crate::read) fn similar<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let word = word.to_lowercase();
    // A long text is no typing error, and the distance costs the product of the lengths.
    if word.len() > 64 {
        return None;
    }
    let near = known.map(|known| (distance(&word, &known.to_lowercase()), known));
    let near = near.filter(|(distance, known)| *distance * 3 <= known.chars().count().max(3));
    near.min_by_key(|(distance, _)| *distance).map(|(_, known)| known)
}

/// How many letters must be added, removed or changed (Levenshtein).
fn distance(left: &str, right: &str) -> usize {
    let right: Vec<char> = right.chars().collect();
    let mut row: Vec<usize> = (0..=right.len()).collect();
    for (index, letter) in left.chars().enumerate() {
        let mut next = vec![index + 1];
        for (other, above) in right.iter().zip(row.windows(2)) {
            let &[diagonal, up] = above else { continue };
            let left = next.last().copied().unwrap_or_default();
            next.push((diagonal + usize::from(letter != *other)).min(up + 1).min(left + 1));
        }
        row = next;
    }
    row.last().copied().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_what_was_meant() {
        let known = ["matches", "filters", "backendRefs", "name"];
        let similar = |word| similar(word, known.into_iter());
        assert_eq!(similar("matchs"), Some("matches"));
        assert_eq!(similar("backendrefs"), Some("backendRefs"));
        assert_eq!(similar("backends"), Some("backendRefs"));
        assert_eq!(similar("nam"), Some("name"));
        assert_eq!(similar("parents"), None);
        assert_eq!(similar("x"), None);
        assert_eq!(similar(""), None);
    }
}
