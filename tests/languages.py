"""Folders of ten pages in German, French and Korean, written for tests."""

GERMAN = {
    "benutzungsordnung.md": """# Benutzungsordnung

## § 1 Geltungsbereich

Diese Ordnung gilt für die Stadtbibliothek und ihre Zweigstellen.

## § 2 Anmeldung

(1) Wer Medien ausleihen will, meldet sich mit einem Ausweis an.

(2) Kinder brauchen die Zustimmung der Eltern; für sie gilt § 6 nicht.

## § 3 Ausleihe

(1) Medien werden für vier Wochen ausgeliehen.

(2) Die Frist kann zweimal verlängert werden, wenn niemand das Medium vorgemerkt hat.

## § 4 Rückgabe

(1) Wer die Frist nach § 3 Abs. 1 überschreitet, zahlt Gebühren nach der Gebührensatzung.

(2) Beschädigte Medien sind zu ersetzen.

## § 5 Hausrecht

Die Leitung kann Personen, die gegen die §§ 2 bis 4 verstoßen, ausschließen.

## § 6 Haftung

Für Wertsachen haftet die Bibliothek nicht.
""",
    "gebührensatzung.md": """# Gebührensatzung

## § 1 Jahresgebühr

Erwachsene zahlen 20 Euro im Jahr.

## § 2 Säumnis

Bei verspäteter Rückgabe (§ 4 Abs. 1 der Benutzungsordnung) fällt je Woche ein Euro an.

## § 3 Befreiung

Von der Gebühr nach § 1 sind Schüler befreit.
""",
    "lesesaal.md": "# Lesesaal\n\nHier stehen Nachschlagewerke, die niemand mitnehmen darf. Getränke sind verboten.\n",
    "fernleihe.md": "# Fernleihe\n\n"
    "Was hier fehlt, bestellen wir in anderen Bibliotheken. Bestellte Bücher liegen im Lesesaal bereit.\n",
    "kinderbibliothek.md": "# Kinderbibliothek\n\n"
    "Bilderbücher und Spiele. Jeden Samstag wird vorgelesen. Die Gebührensatzung gilt hier nicht.\n",
    "geschichte.md": "# Geschichte\n\n"
    "Die Bibliothek wurde 1908 von Elfriede Krüger gegründet. Der Umbau des Lesesaals dauerte drei Jahre.\n",
    "elfriede-krüger.md": "# Elfriede Krüger\n\nSie war Lehrerin und sammelte Märchen aus Pommern.\n",
    "öffnungszeiten.md": "# Öffnungszeiten\n\nMontag bis Freitag von 10 bis 19 Uhr; im August bleibt das Haus geschlossen.\n",
    "bücherbus.md": "# Bücherbus\n\nDer Bus hält in neun Dörfern. Auch im Bücherbus gilt § 3 der Benutzungsordnung.\n",
    "datenschutz.md": "# Datenschutz\n\nAusleihdaten werden nach der Rückgabe gelöscht, soweit Art. 17 DSGVO es verlangt.\n",
}

FRENCH = {
    "règlement.md": """# Règlement intérieur

## Article 1 Champ d'application

Le présent règlement s'applique à tous les visiteurs du musée.

## Article 2 Billets

1. Le billet est valable un jour.

2. Les enfants entrent gratuitement, sous réserve de l'article 4.

## Article 3 Vestiaire

Les sacs sont déposés au vestiaire avant l'entrée.

## Article 4 Groupes

Les groupes réservent une semaine avant la visite.

## Article 5 Sanctions

Quiconque enfreint les articles 2 à 4 peut être exclu.

## Annexe I Tarifs

Le plein tarif est de douze euros.
""",
    "charte.md": """# Charte des prêts

## Article 1 Objet

La charte fixe les conditions de prêt des tapisseries.

## Article 2 Assurance

L'emprunteur assure chaque œuvre pour sa valeur, selon l'article 1.

## Article 3 Transport

Le paragraphe 2 de l'article 2 du règlement intérieur ne vaut pas pour les convoyeurs.
""",
    "tapisseries.md": "# Tapisseries\n\nLa collection compte trente pièces de laine et de soie, tissées à Aubusson.\n",
    "aubusson.md": "# Aubusson\n\nVille de la Creuse où l'on tisse depuis le quinzième siècle.\n",
    "atelier.md": "# Atelier de restauration\n\nOn y nettoie les laines et répare les trames déchirées.\n",
    "jeanne-lurçat.md": "# Jeanne Lurçat\n\nConservatrice du musée, elle a dirigé l'Atelier de restauration pendant vingt ans.\n",
    "horaires.md": "# Horaires\n\n"
    "Ouvert du mardi au dimanche, fermé le premier mai. Les tarifs figurent à l'annexe I du règlement intérieur.\n",
    "boutique.md": "# Boutique\n\nLivres, cartes postales et foulards. Les foulards reproduisent des tapisseries.\n",
    "café.md": "# Café\n\nLe café sert des repas légers à midi.\n",
    "donateurs.md": "# Donateurs\n\nJeanne Lurçat a légué ses cartons à la collection.\n",
}

KOREAN = {
    "도서관 운영 규정.md": """# 도서관 운영 규정

## 제1조(목적)

이 규정은 시립 도서관의 운영에 필요한 사항을 정한다.

## 제2조(회원)

① 시민은 신분증을 내고 회원이 된다.

② 어린이는 보호자의 동의를 받는다.

## 제3조(대출)

① 자료는 2주 동안 빌릴 수 있다.

② 예약이 없으면 한 번 연장한다.

## 제4조(반납)

제3조제1항의 기간이 지난 자료에는 연체료가 붙는다.

## 제5조(출입 제한)

관장은 제2조 및 제4조를 어긴 사람의 출입을 막을 수 있다.
""",
    "연체료 규칙.md": """# 연체료 규칙

## 제1조(금액)

연체료는 하루에 100원이다.

## 제2조(면제)

「도서관 운영 규정」 제2조제2항의 어린이는 연체료를 내지 않는다.

## 제3조(납부)

제1조의 금액은 반납할 때 낸다.
""",
    "열람실.md": "# 열람실\n\n조용히 책을 읽는 방이다. 음료는 가져올 수 없다.\n",
    "어린이실.md": "# 어린이실\n\n그림책과 놀이가 있다. 토요일마다 동화를 읽어 준다.\n",
    "상호대차.md": "# 상호대차\n\n없는 책은 다른 도서관에서 빌려 온다. 책은 열람실에서 받는다.\n",
    "역사.md": "# 역사\n\n1908년에 김영희가 세웠다. 건물은 전쟁 때 불탔다.\n",
    "김영희.md": "# 김영희\n\n교사였으며 옛이야기를 모았다.\n",
    "이용 시간.md": "# 이용 시간\n\n월요일부터 금요일까지 열고 팔월에는 쉰다.\n",
    "이동 도서관.md": "# 이동 도서관\n\n버스가 아홉 마을을 돈다. 「도서관 운영 규정」 제3조가 적용된다.\n",
    "개인정보.md": "# 개인정보\n\n대출 기록은 반납 뒤에 지운다. 「개인정보 보호법」 제15조를 따른다.\n",
}
