//! Decides which characters of foreign text are invisible, or change how the text around them is shown.

/// Whether a character is shown as nothing, or controls a terminal or the direction of the text around it. These
/// are DEL and the C1 controls, line and paragraph separators, interlinear annotations, and everything with the
/// Unicode property `Default_Ignorable_Code_Point` (17.0). The bidirectional controls, the zero-width characters,
/// the variation selectors, the Hangul fillers and the whole block of tags have that property.
pub const fn is_hidden(one: char) -> bool {
    matches!(one,
        '\u{7f}'..='\u{9f}'
        | '\u{ad}'
        | '\u{34f}'
        | '\u{61c}'
        | '\u{115f}'..='\u{1160}'
        | '\u{17b4}'..='\u{17b5}'
        | '\u{180b}'..='\u{180f}'
        | '\u{200b}'..='\u{200f}'
        | '\u{2028}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{3164}'
        | '\u{fe00}'..='\u{fe0f}'
        | '\u{feff}'
        | '\u{ffa0}'
        | '\u{fff0}'..='\u{fffb}'
        | '\u{1bca0}'..='\u{1bca3}'
        | '\u{1d173}'..='\u{1d17a}'
        | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::is_hidden;

    // H-51
    #[test]
    fn hidden_characters_of_every_block_are_known() {
        let hidden = "\u{7f}\u{85}\u{9b}\u{ad}\u{34f}\u{61c}\u{1160}\u{180e}\u{200b}\u{200d}\u{202e}\
                      \u{2028}\u{2060}\u{2066}\u{3164}\u{fe0f}\u{feff}\u{ffa0}\u{fff9}\u{1d173}\
                      \u{e0001}\u{e0041}\u{e007f}\u{e0100}\u{e0fff}";
        assert!(hidden.chars().all(is_hidden));
        assert!(!"aZ0 ~\u{a0}é漢字❯한글\u{10ffff}\n\t".chars().any(is_hidden));
    }
}
